/** A bound on how long the answer of PostgreSQL is waited for. */
import { setTimeout as pause } from 'node:timers/promises'
import { EngineUnavailableError } from '../storage-error.ts'

/** Rejects where the work takes longer; the work goes on. */
export async function inTime<T>(work: Promise<T>, timeoutMs: number): Promise<T> {
  const timeout = new AbortController()
  const late = pause(timeoutMs, undefined, { ref: false, signal: timeout.signal }).then((): never => {
    throw new EngineUnavailableError('The storage engine does not answer in time.')
  })
  try {
    return await Promise.race([work, late])
  } finally {
    timeout.abort()
    late.catch(() => {})
  }
}
