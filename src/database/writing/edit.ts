/**
 * What can be asked of the writer for one document, and its outcome. Edits that must be written together are refused
 * together: when one is refused none is written, and the error lists them.
 */

import type { RevisionId, RevisionPath } from '../../document/ids.ts'
import { RequestError } from '../../document/request-error.ts'
import type { BodyTerm } from '../../document/revisions/new-revision.ts'
import type { Put } from '../../storage/store.ts'
import type { AttachmentRecord } from '../layout/stored-body.ts'

/** A new revision made here. `branching` makes a branch where `interactive` finds a conflict. */
export interface NewRevisionEdit {
  readonly kind: 'interactive' | 'branching'
  readonly id: string
  readonly parent: RevisionId | undefined
  readonly deleted: boolean
  readonly body: Buffer
  /** For the revision id. */
  readonly term: BodyTerm
  readonly attachments?: readonly EditedAttachment[]
  /** What it is refused with if its body would be stored: its attachments could not be found. */
  readonly refusal?: RequestError | undefined
}

/** A revision that another server made. */
export interface ReplicatedEdit {
  readonly kind: 'replicated'
  readonly id: string
  readonly path: RevisionPath
  readonly deleted: boolean
  readonly body: Buffer
  readonly attachments?: readonly EditedAttachment[]
  /** What it is refused with if its body would be stored: its attachments could not be found. */
  readonly refusal?: RequestError | undefined
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

/** An attachment of the new revision. */
export interface EditedAttachment extends Omit<AttachmentRecord, 'revpos'> {
  /** Undefined: the generation of the new revision. */
  readonly revpos: number | undefined
  /** Chunks that are to be committed with the revision. */
  readonly puts: readonly Put[]
}

export type EditOutcome =
  | { readonly outcome: 'written'; readonly revision: RevisionId }
  | { readonly outcome: 'refused'; readonly error: RequestError }

export interface RefusedEdit {
  readonly edit: DocumentEdit
  readonly error: RequestError
}

export class AllOrNothingError extends RequestError {
  readonly refused: readonly RefusedEdit[]

  constructor(refused: readonly RefusedEdit[]) {
    super(
      'all or nothing',
      'expectation_failed',
      'Some documents of the request are refused, so none of them is written.',
    )
    this.refused = refused
  }
}

/** Throws where the refusal of some edits is one of all; `errors` has one entry an edit, undefined where it may pass. */
export function refuseTogether(edits: readonly DocumentEdit[], errors: readonly (RequestError | undefined)[]): void {
  if (!edits.some(({ kind }) => kind === 'branching')) return
  const refused = edits.flatMap((edit, i) => {
    const error = errors[i]
    return error ? [{ edit, error }] : []
  })
  if (refused.length > 0) throw new AllOrNothingError(refused)
}
