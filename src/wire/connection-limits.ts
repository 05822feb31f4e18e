import type { Socket } from 'node:net'

/** The timeouts and minimum rates of a connection. Honest clients on bad lines stay far from them. */
export interface ConnectionLimits {
  /** For the head of a request. */
  readonly headMs: number
  /** For the next request, for more of a body, and for a client to read any of its reply. */
  readonly silenceMs: number
  /** For a whole body. */
  readonly bodyMs: number
  /** The least rate of a body, on average over the time that the server waited for it. */
  readonly bodyBytesPerSecond: number
}

export const DEFAULT_LIMITS: ConnectionLimits = {
  headMs: 30_000,
  silenceMs: 300_000,
  bodyMs: 6 * 3_600_000,
  bodyBytesPerSecond: 500,
}

/**
 * Bytes of a socket that the system has taken. Node's own socket timeouts read the same two numbers to tell a slow
 * client from a dead one; they have no public name. If they are missing, the length of the write queue is used instead.
 */
export function sentBytes(socket: Socket): number {
  const handle: unknown = Reflect.get(socket, '_handle')
  if (typeof handle !== 'object' || handle === null) return -socket.writableLength
  const dispatched: unknown = Reflect.get(handle, 'bytesWritten')
  const queued: unknown = Reflect.get(handle, 'writeQueueSize')
  if (typeof dispatched !== 'number' || typeof queued !== 'number') return -socket.writableLength
  return dispatched - queued
}
