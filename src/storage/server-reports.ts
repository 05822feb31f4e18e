/** Reports that servers on one engine make for each other. */
export interface ServerReports {
  /** Sets how the report of this server is made. */
  reportWith(make: () => string): void
  /** Those of the other servers that answer in time. Rejects where the engine cannot be reached. */
  others(): Promise<readonly string[]>
}
