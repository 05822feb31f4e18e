/**
 * A connection that moves from a secondary to the primary. Its socket goes through the supervisor, to which both have a channel
 * that carries handles.
 */
import type { SendHandle } from 'node:child_process'

export interface MovedConnection {
  /** The process that it comes from, and its number there. */
  readonly pid: number
  readonly number: number
  /** What was received and not handled, in base64. */
  readonly received: string
}

/** The secondary's end. */
export interface ConnectionSender {
  /** Resolves when the handle may be closed. Whether it arrives is not known. */
  sendConnection(connection: MovedConnection, handle: SendHandle): Promise<void>
}

/** The primary's end: at most one listener gets all connections, and must close their handles. */
export type OnConnection = (listener: (connection: MovedConnection, handle: SendHandle) => void) => void
