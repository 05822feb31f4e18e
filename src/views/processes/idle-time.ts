/**
 * How long an index process without work is kept. Each is kept for a minute. One of them is kept ready for longer: to start a process
 * and to have its code compiled takes longer than most jobs. One that holds much memory after a large build is not kept
 * ready, since the next one starts small.
 */

export interface IdleProcess {
  /** How long it has had no work. */
  readonly idleMs: number
  /** Whether there is no other process. */
  readonly isOnly: boolean
  /** The memory that it allocated; undefined if that is not known. */
  readonly privateMb: number | undefined
}

const SHORT_MS = 60_000
const READY_MB = 120

/** Milliseconds until this is to be asked again; 0 if the process is to be ended now. */
export function idleTimeLeft({ idleMs, isOnly, privateMb }: IdleProcess, readyMs: number): number {
  const shortMs = Math.min(SHORT_MS, readyMs)
  if (idleMs < shortMs) return shortMs - idleMs
  if (!isOnly || privateMb === undefined || privateMb > READY_MB) return 0
  return Math.max(0, Math.min(SHORT_MS, readyMs - idleMs))
}
