/** A row of `_active_tasks` or `_scheduler/jobs`: those of all servers are listed. */
export interface Work {
  readonly pid: string | null
}

/** What runs in the server that listed it. */
export function ownWork<Row extends Work>(rows: readonly Row[]): Row[] {
  return rows.filter(({ pid }) => pid?.startsWith('<0.'))
}
