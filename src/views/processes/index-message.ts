/** The messages between the server and its index processes. */
import { type ErrorKind, RequestError } from '../../document/request-error.ts'
import type { FunctionSettings } from '../../functions/function-settings.ts'
import type { MessageLevel } from '../../runtime/log/log.ts'
import { CommitFailedError, FileDamagedError, StoreGoneError } from '../../storage/storage-error.ts'
import type { ViewDesign } from '../design/view-design.ts'
import { ReductionError } from '../reductions/reduction.ts'
import type { UpdateProgress } from '../updating/update-request.ts'

/** The first message to a process. */
export interface ProcessBeginning {
  /** It works for this server only. */
  readonly serverPid: number
  /** Where the indexes lie. */
  readonly folder: string
  readonly settings: ProcessSettings
}

/** Settings, which may change at any time. */
export interface ProcessSettings {
  readonly functions: FunctionSettings
  /** How many bytes of rows a first build sorts at a time. */
  readonly sortBytes: number
  /** The timeout of stopping a job or the process. */
  readonly stopMs: number
  /** The same where it does not open a file: writers wait for it. */
  readonly openMs: number
}

export type ToProcess =
  | ({ readonly type: 'begin' } & ProcessBeginning)
  | ({ readonly type: 'start'; readonly job: number } & IndexJob)
  | { readonly type: 'abort'; readonly job: number; readonly error: ErrorMessage }
  | { readonly type: 'settings'; readonly settings: ProcessSettings }
  /** Functions of this language may be called soon. */
  | { readonly type: 'prepare'; readonly language: string }
  /** The answer to `opening`. */
  | { readonly type: 'open'; readonly request: number }
  /** No commits to this index from the answer, `paused`, until `resume`: another process opens the file. */
  | { readonly type: 'pause'; readonly index: string; readonly pause: number }
  | { readonly type: 'resume'; readonly pause: number }
  /** The answer to `next path`. */
  | { readonly type: 'path'; readonly request: number; readonly path: string }
  /** The answer to `moved`. */
  | { readonly type: 'taken over'; readonly request: number }
  /** To be answered with `alive`. */
  | { readonly type: 'ping' }
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

export type FromProcess =
  /** The process has begun the job: if it ends now, the job may be the cause. */
  | { readonly type: 'started'; readonly job: number }
  /**
   * The process is about to open the database of the job. To open a file while another process commits to it can make
   * LMDB forget the commit. So the server writes none from its answer until the file is open.
   */
  | { readonly type: 'opening'; readonly job: number; readonly request: number }
  | { readonly type: 'opened'; readonly job: number }
  /** The answer to `pause`. */
  | { readonly type: 'paused'; readonly pause: number }
  | { readonly type: 'updated'; readonly job: number; readonly progress: UpdateProgress }
  | { readonly type: 'compacted'; readonly job: number; readonly share: number }
  /** Requests a path for the next generation of this index. */
  | { readonly type: 'next path'; readonly index: string; readonly request: number }
  /** The index was rewritten into this file. */
  | { readonly type: 'moved'; readonly index: string; readonly request: number; readonly path: string }
  /** The work is done, or failed. The files may be open for a while, for the next job. */
  | { readonly type: 'done'; readonly job: number; readonly error?: ErrorMessage }
  /** The files of the job are closed, unless another job needs them. An `abort` makes that happen at once. */
  | { readonly type: 'closed'; readonly job: number }
  | { readonly type: 'log'; readonly level: MessageLevel; readonly message: string; readonly details?: object }
  | { readonly type: 'alive' }

/** An error in a form that goes from process to process. */
export type ErrorMessage =
  | ({ readonly kind: 'request' } & RequestErrorMessage)
  | ({ readonly kind: 'reduction' } & RequestErrorMessage)
  | { readonly kind: 'damaged'; readonly path: string; readonly problem: string }
  | { readonly kind: 'gone'; readonly store: string }
  | { readonly kind: 'disk' | 'other'; readonly message: string }

interface RequestErrorMessage {
  readonly errorKind: ErrorKind
  readonly error: string
  readonly reason: string
  readonly reasonValue: unknown
}

export function encodeError(error: unknown): ErrorMessage {
  if (error instanceof RequestError) {
    const kind = error instanceof ReductionError ? 'reduction' : 'request'
    const { kind: errorKind, error: identifier, reason, reasonValue } = error
    return { kind, errorKind, error: identifier, reason, reasonValue }
  }
  if (error instanceof FileDamagedError) return { kind: 'damaged', path: error.path, problem: error.problem }
  if (error instanceof StoreGoneError) return { kind: 'gone', store: error.store }
  const message = error instanceof Error ? error.message : String(error)
  return { kind: error instanceof CommitFailedError ? 'disk' : 'other', message }
}

export function decodeError(error: ErrorMessage): Error {
  if (error.kind === 'request') return new RequestError(error.errorKind, error.error, error.reason, error.reasonValue)
  if (error.kind === 'reduction')
    return new ReductionError(error.errorKind, error.error, error.reason, error.reasonValue)
  if (error.kind === 'damaged') return new FileDamagedError(error.path, error.problem)
  if (error.kind === 'gone') return new StoreGoneError(error.store)
  if (error.kind === 'disk') return new CommitFailedError(error.message)
  return new Error(error.message)
}
