/** The messages between the primary and the secondaries of a server. Both ends are of the same release: the kind determines the type. */
import type { DatabaseCommit } from '../database/cache-invalidation.ts'
import { type ErrorKind, RequestError } from '../document/request-error.ts'
import type { ReduceInput, ReduceProgram } from '../functions/functions.ts'
import type { ServerSlots } from '../http/listeners/connection-slots.ts'
import type { MetricsReport } from '../runtime/metrics.ts'
import type { StatisticIncrement } from '../runtime/statistics.ts'
import type { RefusedFile, StorePlace } from '../storage/leases/store-followers.ts'
import type { ViewDesign } from '../views/design/view-design.ts'
import { ReductionError } from '../views/reductions/reduction.ts'
import type { ConnectionAdopter } from './arriving-connections.ts'
import type { OnConnection } from './moved-connection.ts'
import type { ReturningConnections } from './returning-connections.ts'

/** How the nodes of a server find each other, and the term of the primary. */
export interface NodePlace {
  /** Only the operating system's user of the server may enter it. */
  readonly folder: string
  /** The fencing number of the primary's lease. */
  readonly term: number
  /** Slots for connections, which the primary lends to the others. */
  readonly slots: ServerSlots
  readonly slotLimit: () => number
  /** How many other nodes there are beside the primary. */
  readonly secondaries: number
  /** Goes on with connections that secondaries move here. */
  readonly adopter: ConnectionAdopter
  /** How they come; undefined where none do. */
  readonly onConnection: OnConnection | undefined
  readonly returning: ReturningConnections
}

/** A setting and its value; null where it was removed. */
export type SettingEntry = readonly [section: string, key: string, value: string | null]

/** The first state of a secondary. */
export interface NodeState {
  /** When the primary opened the databases. */
  readonly epochUs: number
  /** Of the nodes that are not the primary. */
  readonly secondaries: number
  readonly settings: readonly SettingEntry[]
  readonly databases: readonly StorePlace[]
  readonly indexes: readonly StorePlace[]
  /** Files of either that must not be opened. */
  readonly refused: readonly RefusedFile[]
}

/** The engine that a store belongs to. */
export type StoreKind = 'databases' | 'indexes'

/** Acknowledged by all secondaries before the primary continues. */
export type Notice =
  | { readonly kind: 'placed'; readonly stores: StoreKind; readonly place: StorePlace }
  | { readonly kind: 'dropped'; readonly stores: StoreKind; readonly name: string }
  | { readonly kind: 'refused'; readonly files: readonly RefusedFile[] }
  | { readonly kind: 'settings'; readonly settings: readonly SettingEntry[] }
  /** The primary is about to bind the addresses of these settings. */
  | { readonly kind: 'make way'; readonly settings: readonly SettingEntry[] }
  | { readonly kind: 'changed'; readonly commit: DatabaseCommit }
  /** The primary is about to close: no more requests are forwarded to it. */
  | { readonly kind: 'drain' }
  /** Log lines and counts so far are sent before the acknowledgement. */
  | { readonly kind: 'report' }

/** To the secondary that moves a connection: the primary has its socket. The reply says whether the primary may go on with it. */
export interface ConnectionQuestion {
  readonly kind: 'connection'
  readonly number: number
  /** False: the primary cannot go on with it. */
  readonly isWanted: boolean
}

/** Databases that the secondary watches and that were written since the last one. */
export interface UpdateSignal {
  readonly kind: 'updated'
  readonly commits: readonly DatabaseCommit[]
}

/** From a secondary, without a reply. */
export type SecondarySignal =
  /** With the number of its connections. */
  | { readonly kind: 'hello'; readonly pid: number; readonly connections: number }
  /** The file of this opening is open, or could not be opened. */
  | { readonly kind: 'opened'; readonly number: number }
  /** Returns slots for connections. */
  | { readonly kind: 'slots back'; readonly count: number }
  /** Subscribes to commits of these databases. The last commit is published at once. */
  | { readonly kind: 'watch'; readonly databases: readonly string[] }
  /** Unsubscribes from commits of these databases. */
  | { readonly kind: 'unwatch'; readonly databases: readonly string[] }
  | { readonly kind: 'lines'; readonly lines: string }
  | {
      readonly kind: 'statistics'
      readonly increments: readonly StatisticIncrement[]
      readonly metrics: MetricsReport
    }

/** From a secondary, with a reply. */
export type SecondaryCall =
  /** Creates the index if need be; with `isUpdated` also updates it to the current state of the database. */
  | {
      readonly kind: 'index'
      readonly database: string
      readonly uuid: string
      readonly design: ViewDesign
      readonly isUpdated: boolean
    }
  /** Asks to open a file. Nobody writes to the store from the reply, an `OpeningReply`, until `opened`. */
  | { readonly kind: 'opening'; readonly stores: StoreKind; readonly place: StorePlace; readonly pid: number }
  /** Asks for slots for connections beside those that it holds; the reply is how many it gets. */
  | { readonly kind: 'slots'; readonly wanted: number; readonly held: number }
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

/** The result of a call, or why it was refused. */
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

/** The errors of a client's request are passed on to the secondary. */
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

/** Throws the error of a refused call. */
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
