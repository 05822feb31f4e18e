/**
 * A connection that a secondary moves to the primary. The primary asks for it before it reads from its socket, so that of the
 * two processes that have the socket only one reads, whenever either dies.
 */
import type { SendHandle } from 'node:child_process'
import type { Socket } from 'node:net'
import { closeHandle, socketOf } from '../wire/socket-handle.ts'
import type { MovedConnection } from './moved-connection.ts'

/** Who goes on with connections. */
export interface ConnectionAdopter {
  /** Whether it can now. */
  readonly canAdopt: boolean
  /** The connection is counted from now on, whatever the limit. */
  adopt(socket: Socket): void
}

export interface ArrivingOptions {
  readonly adopter: ConnectionAdopter
  /** Says to the secondary whether the connection is wanted. Resolves to whether it has given it up. */
  readonly ask: (isWanted: boolean) => Promise<boolean>
}

export async function takeConnection(
  { received }: MovedConnection,
  handle: SendHandle,
  { adopter, ask }: ArrivingOptions,
): Promise<void> {
  // It may be gone. Then the connection is, too.
  const isGivenUp = await ask(adopter.canAdopt).catch(() => false)
  if (isGivenUp) adopter.adopt(socketOf(handle, Buffer.from(received, 'base64')))
  else closeHandle(handle)
}
