/** The sources of rows for a first build, a batch at a time: map functions, or the stored documents themselves. */
import type { DatabaseView } from '../../database/database-view.ts'
import { DocumentRows } from '../../functions/selector-rows.ts'
import type { ViewDesign } from '../design/view-design.ts'
import type { BatchReader } from '../updating/batch-reader.ts'
import {
  type Change,
  type ChangedPage,
  changesSince,
  type DocumentIds,
  idsOf,
  readChangedPage,
  renderedText,
  wholeTextAt,
} from '../updating/changed-documents.ts'
import { rowsBetween } from '../updating/mapped-documents.ts'
import type { GatheredRows } from './gathered-rows.ts'

export interface RowBatches {
  /** Adds the rows of the documents that follow a sequence. Batches must be requested in order. */
  addNext(since: number, rows: GatheredRows): Promise<AddedBatch>
  /** Resolves when nothing is under way any more. */
  stop(): Promise<void>
}

export interface AddedBatch {
  /** The sequence that is reached with these documents. */
  readonly updateSequence: number
  /** How many changes were read. */
  readonly changes: number
  /** Whether the end was reached. */
  readonly isLast: boolean
}

/** The rows that map functions emit. */
export class MappedBatches implements RowBatches {
  readonly #reader: BatchReader

  constructor(reader: BatchReader) {
    this.#reader = reader
  }

  async addNext(since: number, rows: GatheredRows): Promise<AddedBatch> {
    const batch = await this.#reader.next(since)
    for (const call of batch.calls) rows.add(call)
    return batch
  }

  stop(): Promise<void> {
    return this.#reader.stop()
  }
}

/** Bodies that are held together. */
const PAGE_BYTES = 8 * 1024 * 1024

/** The rows of selector indexes. Fields are read from the stored bodies: no document text is built. */
export class SelectorBatches implements RowBatches {
  readonly #view: DatabaseView
  readonly #design: ViewDesign
  readonly #signal: AbortSignal | undefined
  readonly #limits
  readonly #documentRows: DocumentRows
  readonly #needsId: boolean
  readonly #needsRevision: boolean
  readonly #members = new Map<string, Buffer>()

  constructor(view: DatabaseView, design: ViewDesign, batchChanges: number, signal: AbortSignal | undefined) {
    this.#view = view
    this.#design = design
    this.#signal = signal
    this.#limits = { changes: batchChanges, bytes: PAGE_BYTES }
    this.#documentRows = new DocumentRows(design.maps)
    this.#needsId = this.#documentRows.members.includes('_id')
    this.#needsRevision = this.#documentRows.members.includes('_rev')
  }

  async addNext(since: number, rows: GatheredRows): Promise<AddedBatch> {
    this.#signal?.throwIfAborted()
    const page = await readChangedPage(this.#view.snapshot, changesSince(since), this.#design, this.#limits)
    await this.#addPage(page, rows)
    const { updateSequence } = await this.#view.state()
    const { read: changes, reached = updateSequence, rest } = page
    if (rest && reached < updateSequence) return { updateSequence: reached, changes, isLast: false }
    // Sequences without a document, such as that of the security object, are reached too.
    return { updateSequence, changes, isLast: true }
  }

  async stop(): Promise<void> {}

  async #addPage(page: ChangedPage, rows: GatheredRows): Promise<void> {
    const { block, changes, bodies } = page
    let next = 0
    for (const change of changes) {
      const ids = idsOf(block, change.places)
      if (change.places.deleted) {
        rows.addDocument(ids, [])
        continue
      }
      const body = bodies[next++]!
      const textAt = wholeTextAt(change, body, this.#design)
      // Nearly all are read synchronously: awaiting each would cost more than reading it.
      const batch =
        textAt === undefined
          ? this.#documentRows.of(await renderedText(this.#view, block, change, body, this.#design), 0, undefined)
          : this.#documentRows.of(body.block, textAt, this.#besides(block, change, ids))
      rows.addDocument(ids, rowsBetween(batch, 0, batch.rows))
    }
  }

  /** Fields that are used and not in the text of a document; undefined if there are none. */
  #besides(block: Buffer, { places }: Change, { quotedId }: DocumentIds): Map<string, Buffer> | undefined {
    if (!this.#needsId && !this.#needsRevision) return undefined
    const members = this.#members
    if (this.#needsId) members.set('_id', quotedId)
    if (this.#needsRevision) members.set('_rev', block.subarray(places.winnerAt, places.winnerEnd))
    return members
  }
}
