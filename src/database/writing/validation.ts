/**
 * Writes of users, with validation. Validation functions run outside the write queue, so a slow one delays its own request
 * only. The writer checks that their input is still current; edits whose input is outdated are validated again. Without
 * validation functions a write goes straight to the queue. Edits that do not fit the partitioning are refused here too.
 */
import { isDesignId } from '../../document/ids.ts'
import { checkPartitionedId } from '../../document/partition.ts'
import { conflict, RequestError } from '../../document/request-error.ts'
import { isObject } from '../../encoding/json/json-value.ts'
import type { DesignProgram, Functions, ValidatedWrite } from '../../functions/functions.ts'
import type { Page } from '../../storage/store.ts'
import type { DatabaseView } from '../database-view.ts'
import { type DesignCache, prepareFunctions } from '../design/design-document.ts'
import { summarizeRecord } from '../layout/document-record.ts'
import { documentKey, idOfDocumentKey } from '../layout/keys.ts'
import type { UserContext } from '../user-context.ts'
import { type DocumentEdit, type EditOutcome, refuseTogether, writeInPortions } from './edit.ts'
import { type BodyEdit, editInputs, needsValidation } from './validated-edit.ts'
import { portionsOf, SharedValidation, type Verdict, Verdicts } from './validation-calls.ts'
import type { WriteOptions, WriteQueue } from './write-queue.ts'

export interface ValidationParts {
  readonly name: string
  readonly queue: WriteQueue
  readonly validators: Validators
  /** The database as the server itself sees it. */
  readonly view: () => DatabaseView
  /** Undefined where no functions can run: a write that needs one then fails. */
  readonly functions: Functions | undefined
}

/** The user whose writes they are. */
export interface Writer {
  readonly user: UserContext
  /** The source of a function whose rules are already applied. */
  readonly enforced?: string | undefined
  readonly options?: WriteOptions | undefined
}

export class Validation {
  readonly #parts: ValidationParts
  readonly #calls: SharedValidation | undefined

  constructor(parts: ValidationParts) {
    const { functions, name } = parts
    this.#parts = parts
    this.#calls = functions && new SharedValidation(functions, name)
  }

  /** Resolves, when they are on disk, to the outcomes of the edits in their order. */
  write(edits: readonly DocumentEdit[], writer: Writer): Promise<EditOutcome[]> {
    if (edits.length === 1) return this.#writePortion(edits, writer)
    return writeInPortions(edits, (portion) => this.#writePortion(portion, writer))
  }

  async #writePortion(edits: readonly DocumentEdit[], writer: Writer): Promise<EditOutcome[]> {
    for (let tries = 0; tries < TRIES; tries++) {
      const outcomes = await this.#try(edits, writer)
      if (outcomes === 'outdated') continue
      this.#prepareFunctions(edits)
      return outcomes
    }
    throw new RequestError(
      'unavailable',
      'service_unavailable',
      'Documents change faster than they are validated; try again.',
    )
  }

  /** Compiles the functions of design documents that were just written. */
  #prepareFunctions(edits: readonly DocumentEdit[]): void {
    const { functions } = this.#parts
    if (!functions) return
    for (const edit of edits) if (isDesignId(edit.id)) prepareFunctions(functions, edit)
  }

  async #try(edits: readonly DocumentEdit[], { user, enforced, options }: Writer): Promise<EditOutcome[] | 'outdated'> {
    const { validators, queue } = this.#parts
    const known = validators.known ?? (await validators.current())
    const wanted = known.validators.filter(({ source }) => source !== enforced)
    if (wanted.length === 0 || !edits.some(needsValidation)) return queue.writeIf(edits, known.isCurrent, options)
    const verdicts = new Verdicts(known.isCurrent)
    const chosen = edits.filter(needsValidation)
    for (const portion of portionsOf(chosen)) await this.#judge(portion, wanted, user, verdicts)
    const errors = edits.map((edit) => verdicts.errors.get(edit))
    refuseTogether(edits, errors)
    const allowed = edits.filter((_, i) => !errors[i])
    const written = await queue.writeIf(allowed, (snapshot, state) => verdicts.stillHold(snapshot, state), options)
    if (written === 'outdated') return written
    const inOrder = written.values()
    return errors.map((error) => (error ? { outcome: 'refused', error } : nextOf(inOrder)))
  }

  async #judge(
    edits: readonly BodyEdit[],
    validators: readonly Validator[],
    user: UserContext,
    verdicts: Verdicts,
  ): Promise<void> {
    using view = this.#parts.view()
    const [{ inputs, sequences }, security, state] = await Promise.all([
      editInputs(view, edits),
      view.security(),
      view.state(),
    ])
    view.release()
    verdicts.saw(edits, sequences, state)
    let waiting: { edit: BodyEdit; write: ValidatedWrite }[] = []
    const common = { user: this.#userText(user), security: security?.toString() ?? '{}' }
    for (const [i, edit] of edits.entries()) {
      const input = inputs[i]
      if (input?.kind === 'conflict') verdicts.errors.set(edit, conflict())
      if (input?.kind !== 'validated') continue
      waiting.push({ edit, write: { document: input.document, previous: input.previous, ...common } })
    }
    for (const { program } of validators) {
      if (waiting.length === 0) return
      const writes = waiting.map(({ write }) => write)
      const errors = await this.#verdictsOf(program, writes)
      for (const [i, { edit }] of waiting.entries()) if (errors[i]) verdicts.errors.set(edit, errors[i])
      waiting = waiting.filter((_, i) => !errors[i])
    }
  }

  async #verdictsOf(program: Validator['program'], writes: readonly ValidatedWrite[]): Promise<Verdict[]> {
    if (!this.#calls) throw new Error('Validation functions cannot run here.')
    try {
      return await this.#calls.verdicts(program, writes)
    } catch (error) {
      if (!(error instanceof RequestError)) throw error
      // A function that cannot run refuses every write.
      return writes.map(() => error)
    }
  }

  #userText({ name, roles }: UserContext): string {
    return JSON.stringify({ db: this.#parts.name, name, roles })
  }
}

/** How often an edit is validated because its document changed meanwhile. */
const TRIES = 10

function nextOf(outcomes: Iterator<EditOutcome>): EditOutcome {
  const { value, done } = outcomes.next()
  if (done) throw new Error('A write has no outcome.')
  return value
}

export interface Validator {
  readonly program: DesignProgram
  /** The member `validate_doc_update` of the design document, of any type. */
  readonly source: unknown
}

/** The validation functions at one point in time. */
export interface KnownValidators {
  /** In descending order of their design documents' ids: the first refusal is the reply. */
  readonly validators: readonly Validator[]
  /** Whether no design document was written since then. */
  readonly isCurrent: () => boolean
}

/** Read with the first write, and again after a design document was written. */
export class Validators {
  readonly #uuid: string
  readonly #designs: DesignCache
  readonly #view: () => DatabaseView
  #known: KnownValidators | undefined
  #reading: Promise<KnownValidators> | undefined
  /** Counts the times that design documents were written. */
  #generation = 0

  constructor(uuid: string, designs: DesignCache, view: () => DatabaseView) {
    this.#uuid = uuid
    this.#designs = designs
    this.#view = view
  }

  /** Undefined until they are first read. */
  get known(): KnownValidators | undefined {
    return this.#known
  }

  async current(): Promise<KnownValidators> {
    if (this.#known) return this.#known
    this.#reading ??= this.#read()
    return this.#reading
  }

  /** To be called after each commit of design documents, before its writer is answered. */
  designsWritten(): void {
    this.#generation++
    this.#known = undefined
    this.#reading = undefined
  }

  async #read(): Promise<KnownValidators> {
    const generation = this.#generation
    const isCurrent = () => generation === this.#generation
    try {
      const known = { validators: await this.#list(), isCurrent }
      if (isCurrent()) this.#known = known
      return known
    } finally {
      if (isCurrent()) this.#reading = undefined
    }
  }

  async #list(): Promise<Validator[]> {
    using view = this.#view()
    const found: Validator[] = []
    for (const id of await liveDesigns(view)) {
      const { program, members } = await this.#designs.open(view, this.#uuid, id)
      const source = members.validate_doc_update ?? null
      if (source !== null) found.push({ program, source })
    }
    return found.reverse()
  }
}

const ALL_DESIGNS = { from: documentKey('_design/'), to: documentKey('_design0') }

/** The ids of the design documents that are not deleted, in order. */
async function liveDesigns({ snapshot }: DatabaseView): Promise<string[]> {
  const ids: string[] = []
  for (let rest: Page['next'] = ALL_DESIGNS; rest; ) {
    const page: Page = await snapshot.page(rest)
    for (let row = 0; row < page.length; row++) {
      if (!summarizeRecord(page.value(row)).deleted) ids.push(idOfDocumentKey(page.key(row)))
    }
    rest = page.next
  }
  return ids
}

/** Why an edit cannot be written to a database that is partitioned, or is not. */
export function partitionRefusal(edit: DocumentEdit, isPartitioned: boolean): RequestError | undefined {
  if (!isPartitioned) return asksForPartitions(edit) ? partitionedDesign() : undefined
  try {
    checkPartitionedId(edit.id)
    return undefined
  } catch (error) {
    if (error instanceof RequestError) return error
    throw error
  }
}

/** A replicated one is accepted: its views are built as if the option were not there. */
function asksForPartitions({ kind, id, deleted, body }: DocumentEdit): boolean {
  if (deleted || !isDesignId(id) || kind === 'replicated' || !body.includes('"partitioned"')) return false
  const members: unknown = JSON.parse(body.toString())
  return isObject(members) && isObject(members.options) && members.options.partitioned === true
}

function partitionedDesign(): RequestError {
  const reason = 'partitioned option cannot be true in a non-partitioned database.'
  return new RequestError('invalid', 'invalid_design_doc', reason)
}
