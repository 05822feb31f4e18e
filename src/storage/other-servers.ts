/** The other servers on one engine: what they report, and what is asked of them. */
export interface OtherServers {
  /** Sets how the report of this server is made. */
  reportWith(make: () => string): void
  /** The reports of those that answer in time. Rejects where the engine cannot be reached. */
  reports(): Promise<readonly string[]>
  /** Sets what this server does when another one asks for it. */
  answerWith(handle: (request: string) => Promise<void>): void
  /** Asks all of them for something, in a few words. Resolves when it is done, or after a timeout. */
  ask(request: string): Promise<void>
}
