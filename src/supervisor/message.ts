/** What a server asks of its supervisor, and what it is told. Replies carry the id of their request. */
import type { ListeningAddress } from '../http/listeners/listener.ts'

export type ServerRequest =
  | { readonly kind: 'lease'; readonly id: number; readonly folder: string }
  /** Answered with the socket, if one is kept. */
  | { readonly kind: 'take'; readonly id: number; readonly address: ListeningAddress }
  | { readonly kind: 'keep-only'; readonly id: number; readonly addresses: readonly ListeningAddress[] }

export type ServerMessage =
  | ServerRequest
  | { readonly kind: 'release'; readonly folder: string }
  /** Comes with the socket. */
  | { readonly kind: 'keep'; readonly address: ListeningAddress }
  /** The server answers requests. */
  | { readonly kind: 'ready' }

export type SupervisorMessage =
  | { readonly kind: 'reply'; readonly id: number; readonly error?: string }
  /** The first message to each server; it tells how the one before ended, where there was one. */
  | { readonly kind: 'start'; readonly previousEnd?: string }
  | { readonly kind: 'stop' }

/** Both ends are of one release: the kind tells the rest. */
export function isServerMessage(message: unknown): message is ServerMessage {
  return typeof message === 'object' && message !== null && 'kind' in message
}

export function isSupervisorMessage(message: unknown): message is SupervisorMessage {
  return typeof message === 'object' && message !== null && 'kind' in message
}
