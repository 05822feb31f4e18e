/** What the server and the threads that work on its indexes tell each other. */
import { RequestError } from '../../document/request-error.ts'
import type { FunctionSettings } from '../../functions/function-settings.ts'
import type { MessageLevel } from '../../runtime/log.ts'
import { CommitFailedError, StoreGoneError } from '../../storage/storage-error.ts'
import type { StorePlace } from '../../storage/store-paths.ts'
import type { UpdateProgress } from '../index-update.ts'
import { ReductionError } from '../reductions/reduction-error.ts'
import type { ViewDesign } from '../view-design.ts'

/** What a thread is born with. */
export interface ThreadData {
  readonly databases: StorePlace
  readonly indexes: StorePlace
  readonly settings: ThreadSettings
  /** Where compiled modules are kept, if that is done at all. */
  readonly compiledFolder: string | undefined
}

/** What the configuration says and may say otherwise at any time. */
export interface ThreadSettings {
  readonly functions: FunctionSettings
  /** How many bytes of rows a first build sorts at a time. */
  readonly sortBytes: number
}

export type ToThread =
  | ({ readonly type: 'start'; readonly job: number } & IndexJob)
  | { readonly type: 'abort'; readonly job: number; readonly error: ToldError }
  | { readonly type: 'settings'; readonly settings: ThreadSettings }
  /** Functions of this language may be called soon. */
  | { readonly type: 'prepare'; readonly language: string }
  | { readonly type: 'close' }

export interface IndexJob {
  readonly work: 'update' | 'compact'
  readonly design: ViewDesign
  readonly database: StoreFileOf & { readonly uuid: string }
  readonly index: StoreFileOf & { readonly scratchFolder: string }
}

/** A store and the file that holds it. */
export interface StoreFileOf {
  readonly name: string
  readonly path: string
}

export type FromThread =
  | { readonly type: 'updated'; readonly job: number; readonly progress: UpdateProgress }
  | { readonly type: 'compacted'; readonly job: number; readonly share: number }
  /** The index was written anew, into this file. */
  | { readonly type: 'moved'; readonly name: string; readonly path: string }
  | { readonly type: 'done'; readonly job: number; readonly error?: ToldError }
  | { readonly type: 'log'; readonly level: MessageLevel; readonly message: string; readonly details?: object }

/** An error in a form that goes from thread to thread. */
export type ToldError =
  | ({ readonly kind: 'request' } & ToldRequestError)
  | ({ readonly kind: 'reduction' } & ToldRequestError)
  | { readonly kind: 'gone' | 'disk' | 'other'; readonly message: string }

interface ToldRequestError {
  readonly status: number
  readonly error: string
  readonly reason: string
  readonly told: unknown
}

export function told(error: unknown): ToldError {
  if (error instanceof RequestError) {
    const kind = error instanceof ReductionError ? 'reduction' : 'request'
    return { kind, status: error.status, error: error.error, reason: error.reason, told: error.told }
  }
  const message = error instanceof Error ? error.message : String(error)
  if (error instanceof StoreGoneError) return { kind: 'gone', message }
  return { kind: error instanceof CommitFailedError ? 'disk' : 'other', message }
}

export function heard(error: ToldError): Error {
  if (error.kind === 'request') return new RequestError(error.status, error.error, error.reason, error.told)
  if (error.kind === 'reduction') return new ReductionError(error.status, error.error, error.reason, error.told)
  if (error.kind === 'gone') return new StoreGoneError(error.message)
  if (error.kind === 'disk') return new CommitFailedError(error.message)
  return new Error(error.message)
}
