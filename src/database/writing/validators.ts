/**
 * The validation functions of a database: those of its live design documents, read when the first write asks and again
 * after a design document was written. Between the two they cost a write nothing.
 */
import type { DesignProgram } from '../../functions/functions.ts'
import type { Page } from '../../storage/store.ts'
import type { DatabaseView } from '../database-view.ts'
import type { DesignCache } from '../design/design-document.ts'
import { summarizeRecord } from '../layout/document-record.ts'
import { documentKey, idOfDocumentKey } from '../layout/keys.ts'

export interface Validator {
  readonly program: DesignProgram
  /** What the design document has for a function, whatever that is. */
  readonly source: unknown
}

/** The functions as of some moment. */
export interface KnownValidators {
  /** By falling ids of their design documents: the first that refuses is the one that is told. */
  readonly validators: readonly Validator[]
  /** Whether no design document was written since. */
  readonly isCurrent: () => boolean
}

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

  /** Undefined until they were asked for. */
  get known(): KnownValidators | undefined {
    return this.#known
  }

  async current(): Promise<KnownValidators> {
    if (this.#known) return this.#known
    this.#reading ??= this.#read()
    return this.#reading
  }

  /** To be told of every commit of design documents, before anybody hears that it is done. */
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
