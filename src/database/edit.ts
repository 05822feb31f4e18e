/** What can be asked of the writer for one document, and what comes of it. */
import type { RequestError } from '../document/request-error.ts'
import type { RevisionId, RevisionPath } from '../document/revision-id.ts'

/** A new revision made here. `branching` makes a branch where `interactive` finds a conflict. */
export interface NewRevisionEdit {
  readonly kind: 'interactive' | 'branching'
  readonly id: string
  readonly parent: RevisionId | undefined
  readonly deleted: boolean
  readonly body: Buffer
  /** The Erlang term of the body, for the revision id. */
  readonly term: Uint8Array
}

/** A revision that another server made. */
export interface ReplicatedEdit {
  readonly kind: 'replicated'
  readonly id: string
  readonly path: RevisionPath
  readonly deleted: boolean
  readonly body: Buffer
}

/** A document that stays where it is. */
export interface LocalEdit {
  readonly kind: 'local'
  readonly id: string
  /** `any`: whatever is there is replaced. */
  readonly parent: RevisionId | 'any' | undefined
  readonly deleted: boolean
  readonly body: Buffer
}

export type DocumentEdit = NewRevisionEdit | ReplicatedEdit | LocalEdit

export type EditOutcome =
  | { readonly outcome: 'written'; readonly revision: RevisionId }
  | { readonly outcome: 'refused'; readonly error: RequestError }
