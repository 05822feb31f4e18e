/** For whom something runs: slots are shared out fairly between owners. */
export interface Run {
  /** The database. */
  readonly owner: string
  readonly signal?: AbortSignal | undefined
}
