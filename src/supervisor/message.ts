/** The messages between a server and its supervisor. Replies carry the id of their request. */

import type { SendHandle } from 'node:child_process'
import type { Server } from 'node:net'
import type { ListeningAddress } from '../http/listeners/listener.ts'
import type { MovedConnection } from '../nodes/moved-connection.ts'

export type ServerRequest =
  | { readonly kind: 'lease'; readonly id: number; readonly folder: string }
  /** Answered with the socket if one is kept. */
  | { readonly kind: 'take'; readonly id: number; readonly address: ListeningAddress }
  | { readonly kind: 'keep-only'; readonly id: number; readonly addresses: readonly ListeningAddress[] }

export type ServerMessage =
  | ServerRequest
  | { readonly kind: 'release'; readonly folder: string }
  /** Comes with the socket. */
  | { readonly kind: 'keep'; readonly address: ListeningAddress }
  /** The server answers requests. It may want other nodes beside it. */
  | { readonly kind: 'ready'; readonly secondaries?: WantedSecondaries }
  | ConnectionMessage

export type SupervisorMessage =
  | { readonly kind: 'reply'; readonly id: number; readonly error?: string }
  | StartMessage
  | { readonly kind: 'stop' }
  | ConnectionMessage

/** The first message to each process. */
export interface StartMessage {
  readonly kind: 'start'
  /** How the previous process ended, if there was one. */
  readonly previousEnd?: string
  /** Counts the starts of the primary. */
  readonly term: number
  /** When the process was started, by a clock of the supervisor that never goes back. */
  readonly startedMs?: number
  /** Where the nodes of the server find each other, once there is such a folder. */
  readonly nodeFolder?: string
  /** The number of a secondary; absent for the primary. */
  readonly secondary?: number
}

/** From a secondary, and passed on to the primary. Comes with the socket. */
export interface ConnectionMessage {
  readonly kind: 'connection'
  readonly connection: MovedConnection
}

/** Other nodes that a primary wants beside it. */
export interface WantedSecondaries {
  readonly count: number
  readonly folder: string
}

/** Both ends are of the same release, so the kind determines the type. */
export function isServerMessage(message: unknown): message is ServerMessage {
  return typeof message === 'object' && message !== null && 'kind' in message
}

export function isSupervisorMessage(message: unknown): message is SupervisorMessage {
  return typeof message === 'object' && message !== null && 'kind' in message
}

/**
 * The socket below a `net.Server`. Node sends a whole server to another process only so that both accept connections.
 * The supervisor must not accept any, so the handle is sent, which Node's own cluster does too. It is not documented: where it is
 * missing no socket is kept, and connections are refused while a server is restarted.
 */
export function socketHandle(server: Server): SendHandle | undefined {
  const handle: unknown = Reflect.get(server, '_handle')
  return isSendable(handle) ? handle : undefined
}

/** The types of Node know documented handles only. */
function isSendable(handle: unknown): handle is SendHandle {
  return typeof handle === 'object' && handle !== null && process.platform !== 'win32'
}
