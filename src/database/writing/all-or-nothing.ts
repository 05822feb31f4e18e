/** Edits that are to be written together or not at all: when some are refused, none is written, and all say which. */
import { RequestError } from '../../document/request-error.ts'
import type { DocumentEdit } from './edit.ts'

export interface RefusedEdit {
  readonly edit: DocumentEdit
  readonly error: RequestError
}

export class AllOrNothingError extends RequestError {
  readonly refused: readonly RefusedEdit[]

  constructor(refused: readonly RefusedEdit[]) {
    super(417, 'expectation_failed', 'Some documents of the request are refused, so none of them is written.')
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
