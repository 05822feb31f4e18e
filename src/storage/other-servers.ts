/** The other servers on one engine: what they report, and what is asked of them. */
export interface OtherServers {
  /** Sets how the report of this server is made. */
  reportWith(make: () => string): void
  /** Rejects where the engine cannot be reached, after a few seconds. */
  reports(): Promise<ServerReports>
  /** Sets what this server does when another one asks for it. */
  answerWith(handle: (request: string) => Promise<void>): void
  /** Asks all of them for something, in a few words. Resolves when it is done, or after a timeout. */
  ask(request: string): Promise<void>
}

export interface ServerReports {
  /** Of those that answered in time. */
  readonly texts: readonly string[]
  readonly areAll: boolean
}
