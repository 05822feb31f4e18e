/** Retries with backoff after transient failures. */
import { setTimeout as delay } from 'node:timers/promises'

export interface RetryPolicy {
  /** Attempts after the first. */
  readonly retries: number
}

/** A transient failure: a broken connection, a server that is busy or restarts, a truncated reply. */
export class TransientError extends Error {
  override readonly name: string = 'TransientError'
  /** The `Retry-After` of the peer. */
  readonly retryAfterMs: number | undefined
  /** The number of attempts, if fewer than usual. */
  readonly most: number | undefined

  constructor(message: string, options: { cause?: unknown; retryAfterMs?: number | undefined; most?: number } = {}) {
    super(message, options.cause === undefined ? {} : { cause: options.cause })
    this.retryAfterMs = options.retryAfterMs
    this.most = options.most
  }
}

/** The target refuses a write, though it accepted requests before: this may be transient. */
export class RefusedWriteError extends TransientError {
  override readonly name = 'RefusedWriteError'
}

/** Attempts to get content that does not match its digest or length: it is damaged at the source. */
const DAMAGED_RETRIES = 4

/** A content has another length or digest than was announced: damaged in transit, or at the source. */
export class DamagedContentError extends TransientError {
  override readonly name = 'DamagedContentError'

  constructor(attachment: string) {
    super(`The content of attachment ${attachment} is not what was announced.`, { most: DAMAGED_RETRIES })
  }
}

const FIRST_PAUSE_MS = 250
const LONGEST_PAUSE_MS = 300_000
/** The longest `Retry-After` that is respected. */
const LONGEST_RETRY_AFTER_MS = 60_000

/** Runs until it succeeds, fails for good, or has failed too often. */
export async function retried<T>({ retries }: RetryPolicy, signal: AbortSignal, attempt: () => Promise<T>): Promise<T> {
  for (let failures = 0; ; ) {
    signal.throwIfAborted()
    try {
      return await attempt()
    } catch (error) {
      signal.throwIfAborted()
      if (!(error instanceof TransientError)) throw error
      failures++
      if (failures > Math.min(retries, error.most ?? retries)) throw error
      await pause(failures, error.retryAfterMs, signal)
    }
  }
}

/** Longer with each failure in a row. With jitter, so that concurrent failures are not retried together. */
export async function pause(failures: number, retryAfterMs: number | undefined, signal: AbortSignal): Promise<void> {
  const grownMs = Math.min(FIRST_PAUSE_MS * 2 ** (failures - 1), LONGEST_PAUSE_MS)
  const asked = Math.min(retryAfterMs ?? 0, LONGEST_RETRY_AFTER_MS)
  const pauseMs = Math.max(grownMs * (0.75 + Math.random() / 4), asked)
  await delay(pauseMs, undefined, { signal, ref: false }).catch(() => signal.throwIfAborted())
}
