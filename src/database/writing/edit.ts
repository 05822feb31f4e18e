/**
 * What can be asked of the writer for one document, and its outcome. Edits of one request are written in portions that fit
 * a commit. Edits that must be written together are refused together: when one is refused none is written, and the error
 * lists them.
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
  /** The error if its body would be stored: its attachments could not be found. */
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
  /** The error if its body would be stored: its attachments could not be found. */
  readonly refusal?: RequestError | undefined
}

/** A local document: it is not replicated. */
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
  /** Undefined for the generation of the new revision. */
  readonly revpos: number | undefined
  /** Chunks that are committed with the revision. */
  readonly puts: readonly Put[]
  /** Whether other edits have the same chunks: their memory is not freed with the first commit. */
  readonly sharesPuts?: boolean
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

/** Throws where edits must succeed together and some are refused. `errors` has one entry an edit, undefined where it may pass. */
export function refuseTogether(edits: readonly DocumentEdit[], errors: readonly (RequestError | undefined)[]): void {
  if (!edits.some(({ kind }) => kind === 'branching')) return
  const refused = edits.flatMap((edit, i) => {
    const error = errors[i]
    return error ? [{ edit, error }] : []
  })
  if (refused.length > 0) throw new AllOrNothingError(refused)
}

/** Edits of one request that are committed together; a larger request is committed in parts. */
const EDITS_A_COMMIT = 2000
/** While a commit is under way, the store holds up to two more copies of what it writes. */
const BYTES_A_COMMIT = 16 * 1024 * 1024
/** For edits that must succeed together: a larger commit would delay all other writes. */
const BOUND_EDITS = 5000

/** The request changes more rows than a commit takes: after a revision limit was lowered, old bodies are removed too. */
export class TooManyOperationsError extends RequestError {
  constructor() {
    super('too large', 'too_large', 'The request changes too much at once; send it in parts.')
  }
}

/**
 * Writes edits in portions that fit a commit, and joins their outcomes. Only edits that make branches must succeed
 * together, so others may be parted: how many rows they change is known only when they are decided.
 */
export async function writeInPortions(
  edits: readonly DocumentEdit[],
  write: (portion: readonly DocumentEdit[]) => Promise<EditOutcome[]>,
): Promise<EditOutcome[]> {
  if (edits.length === 1) return write(edits)
  if (areBound(edits)) {
    if (edits.length > BOUND_EDITS) throw tooManyAtOnce()
    return writeOrHalve(edits, write)
  }
  const outcomes: EditOutcome[] = []
  for (const portion of portionsOf(edits)) {
    const written = await writeOrHalve(portion, write)
    for (const outcome of written) outcomes.push(outcome)
  }
  return outcomes
}

/** Portions of as many edits and bytes as one commit takes. */
function* portionsOf(edits: readonly DocumentEdit[]): Generator<readonly DocumentEdit[]> {
  let first = 0
  let count = 0
  let bytes = 0
  for (let next = 0; next < edits.length; next++) {
    const edit = edits[next]!
    // Each attachment has rows of its own.
    const weight = 1 + ('attachments' in edit ? (edit.attachments?.length ?? 0) : 0)
    const { length } = edit.body
    if (next > first && (count + weight > EDITS_A_COMMIT || bytes + length > BYTES_A_COMMIT)) {
      yield edits.slice(first, next)
      first = next
      count = 0
      bytes = 0
    }
    count += weight
    bytes += length
  }
  yield edits.slice(first)
}

async function writeOrHalve(
  edits: readonly DocumentEdit[],
  write: (portion: readonly DocumentEdit[]) => Promise<EditOutcome[]>,
): Promise<EditOutcome[]> {
  try {
    return await write(edits)
  } catch (error) {
    if (!(error instanceof TooManyOperationsError) || edits.length === 1 || areBound(edits)) throw error
    const half = Math.ceil(edits.length / 2)
    const first = await writeOrHalve(edits.slice(0, half), write)
    return first.concat(await writeOrHalve(edits.slice(half), write))
  }
}

function areBound(edits: readonly DocumentEdit[]): boolean {
  return edits.some(({ kind }) => kind === 'branching')
}

function tooManyAtOnce(): RequestError {
  return new RequestError(
    'too large',
    'too_large',
    `More than ${BOUND_EDITS} documents cannot be written all or nothing.`,
  )
}
