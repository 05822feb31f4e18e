/** What the primary and the secondaries of a server tell each other. Both ends are of one release: the kind tells the rest. */
import type { DatabaseCommit } from '../database/cache-invalidation.ts'
import { type ErrorKind, RequestError } from '../document/request-error.ts'
import type { ReduceInput, ReduceProgram } from '../functions/functions.ts'
import type { ServerSlots } from '../http/listeners/connection-slots.ts'
import type { MetricsReport } from '../runtime/metrics.ts'
import type { StatisticIncrement } from '../runtime/statistics.ts'
import type { RefusedFile, StorePlace } from '../storage/leases/store-followers.ts'
import type { ViewDesign } from '../views/design/view-design.ts'
import { ReductionError } from '../views/reductions/reduction.ts'

/** Where the nodes of a server find each other, and who is the primary. */
export interface NodePlace {
  /** Only the user of the server may enter it. */
  readonly folder: string
  /** The fencing number of the primary's lease. */
  readonly term: number
  /** Slots for connections, which the primary shares with the others, and how many there are. */
  readonly slots: ServerSlots
  readonly slotLimit: () => number
}

/** The name, and the value; null where the setting was taken away. */
export type SettingEntry = readonly [section: string, key: string, value: string | null]

/** What a secondary begins with. */
export interface NodeState {
  /** When the primary opened the databases. */
  readonly epochUs: number
  readonly settings: readonly SettingEntry[]
  readonly databases: readonly StorePlace[]
  readonly indexes: readonly StorePlace[]
  /** Files of either that must not be opened. */
  readonly refused: readonly RefusedFile[]
}

/** Which stores a place is one of. */
export type StoreKind = 'databases' | 'indexes'

/** Taken over before the primary goes on. */
export type Notice =
  | { readonly kind: 'placed'; readonly stores: StoreKind; readonly place: StorePlace }
  | { readonly kind: 'dropped'; readonly stores: StoreKind; readonly name: string }
  | { readonly kind: 'refused'; readonly files: readonly RefusedFile[] }
  | { readonly kind: 'settings'; readonly settings: readonly SettingEntry[] }
  /** The primary is about to bind the addresses of these settings. */
  | { readonly kind: 'make way'; readonly settings: readonly SettingEntry[] }
  | { readonly kind: 'changed'; readonly commit: DatabaseCommit }
  /** The primary is about to close: nothing more is handed to it. */
  | { readonly kind: 'drain' }
  /** Lines and counts so far are sent before it is answered. */
  | { readonly kind: 'report' }

/** Databases that the secondary watches and that were written since the last one. */
export interface UpdateSignal {
  readonly kind: 'updated'
  readonly commits: readonly DatabaseCommit[]
}

/** From a secondary; nobody waits for them. */
export type SecondarySignal =
  /** With how many connections it has. */
  | { readonly kind: 'hello'; readonly pid: number; readonly connections: number }
  /** Slots for connections that it does not need. */
  | { readonly kind: 'slots back'; readonly count: number }
  /** It wants to hear of commits to these databases, in addition to others. It is told of the last one at once. */
  | { readonly kind: 'watch'; readonly databases: readonly string[] }
  /** Nobody there waits for changes of these any more. */
  | { readonly kind: 'unwatch'; readonly databases: readonly string[] }
  | { readonly kind: 'lines'; readonly lines: string }
  | {
      readonly kind: 'statistics'
      readonly increments: readonly StatisticIncrement[]
      readonly metrics: MetricsReport
    }

/** What a secondary asks of the primary. */
export type SecondaryCall =
  /** Sees to it that the index is there; and that it has reached the database as it is now. */
  | {
      readonly kind: 'index'
      readonly database: string
      readonly uuid: string
      readonly design: ViewDesign
      readonly isUpdated: boolean
    }
  /** Wants slots for connections; answered with how many it gets. */
  | { readonly kind: 'slots'; readonly wanted: number }
  | { readonly kind: 'password'; readonly name: string; readonly password: string }
  | {
      readonly kind: 'reduce'
      readonly program: ReduceProgram
      readonly groups: readonly (readonly ReduceInput[])[]
      readonly owner: string
    }
  | {
      readonly kind: 'rereduce'
      readonly program: ReduceProgram
      readonly groups: readonly (readonly string[])[]
      readonly owner: string
    }

/** A call that was refused, or what it gives. */
export type CallReply<T> =
  | { readonly value: T }
  | {
      readonly refused: {
        readonly kind: ErrorKind
        readonly error: string
        readonly reason: string
        readonly reasonValue: unknown
        readonly isOfReduction: boolean
      }
    }

/** What is wrong with a request is told to whoever asked, in the words of the interface. */
export async function replyOf<T>(work: Promise<T>): Promise<CallReply<T>> {
  try {
    return { value: await work }
  } catch (error) {
    if (!(error instanceof RequestError)) throw error
    const { kind, error: identifier, reason, reasonValue } = error
    const isOfReduction = error instanceof ReductionError
    return { refused: { kind, error: identifier, reason, reasonValue, isOfReduction } }
  }
}

/** Throws what was refused. */
export function resultOf<T>(reply: CallReply<T>): T {
  if ('value' in reply) return reply.value
  const { kind, error, reason, reasonValue, isOfReduction } = reply.refused
  if (isOfReduction) throw new ReductionError(kind, error, reason, reasonValue)
  throw new RequestError(kind, error, reason, reasonValue)
}

export function isKindOf<T extends { readonly kind: string }>(message: unknown): message is T {
  return typeof message === 'object' && message !== null && 'kind' in message
}

/** Sockets in the folder of the nodes. */
export const CHANNEL_SOCKET = 'primary.sock'
export const REQUESTS_SOCKET = 'requests.sock'
