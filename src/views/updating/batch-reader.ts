/**
 * Reads a database in batches of mapped documents, from a sequence on. Functions work while the rest of a batch is read. The
 * next batch is read and mapped ahead, so that they work while rows are written; the documents of the one after it are
 * read meanwhile.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { DatabaseView } from '../../database/database-view.ts'
import { RequestError } from '../../document/request-error.ts'
import type { Functions } from '../../functions/functions.ts'
import type { Run } from '../../runtime/fair-semaphore.ts'
import type { Page } from '../../storage/store.ts'
import { mapProgram, type ViewDesign } from '../design/view-design.ts'
import {
  type BatchLimits,
  type ChangedBatch,
  type DocumentListener,
  type ReadChangedOptions,
  readChanged,
} from './changed-documents.ts'
import { DocumentMapping, type MappedCall } from './mapped-documents.ts'

/** A database as indexes read it, without access rules. */
export interface IndexSource {
  readonly uuid: string
  /** The state as of now; must be released. */
  view(): DatabaseView
}

export interface MappedBatch {
  readonly calls: readonly MappedCall[]
  /** The sequence that is reached with these documents. */
  readonly updateSequence: number
  /** Of the state that they were read in. */
  readonly purgeSequence: number
  /** How many changes were read. */
  readonly changes: number
  /** Whether the end was reached. */
  readonly isLast: boolean
}

/** What the first batch is read in, and what is known of it. */
export interface FirstBatch extends Pick<ReadChangedOptions, 'state' | 'onChanges'>, Partial<ReadChanges> {
  readonly view: DatabaseView
}

/** Changes that were read before it was known that they are needed. */
export interface ReadChanges {
  readonly since: number
  readonly firstPage: Promise<Page>
}

export interface BatchReaderOptions {
  readonly source: IndexSource
  readonly design: ViewDesign
  readonly functions: Functions
  readonly run: Run
  readonly limits: BatchLimits
}

/** The rows of a batch are in memory together: if documents emit more than this, batches get smaller. */
const EMITTED_BYTES = 64 * 1024 * 1024

export class BatchReader {
  readonly #options: BatchReaderOptions
  #mostChanges: number
  /** The expected number that fits, from previous batches. */
  #changes: number
  /** The state that the first batch is read in. */
  #first: FirstBatch | undefined
  #ahead: { readonly since: number; readonly batch: Promise<MappedBatch> } | undefined
  #documentsAhead: { readonly since: number; readonly read: Promise<ChangedBatch> } | undefined

  constructor(options: BatchReaderOptions) {
    this.#options = options
    this.#mostChanges = options.limits.changes
    this.#changes = this.#mostChanges
  }

  /** Takes ownership of a view: the first batch is read in it. */
  beginIn(first: FirstBatch): void {
    this.#first = first
  }

  /** The batch after a sequence. Batches must be requested in order. */
  async next(since: number): Promise<MappedBatch> {
    const ahead = this.#ahead?.since === since ? this.#ahead.batch : undefined
    this.#ahead = undefined
    const batch = await (ahead ?? this.#read(since))
    if (!batch.isLast) this.#readAhead(batch.updateSequence)
    return batch
  }

  /** Sets the most changes of a batch. What was read ahead is dropped. */
  async shrink(changes: number): Promise<void> {
    await this.stop()
    this.#mostChanges = changes
    this.#changes = changes
  }

  /** Resolves when nothing is under way any more. */
  async stop(): Promise<void> {
    await this.#ahead?.batch.catch(() => {})
    this.#ahead = undefined
    await this.#documentsAhead?.read.catch(() => {})
    this.#documentsAhead = undefined
    this.#first?.view.release()
    this.#first = undefined
  }

  #readAhead(since: number): void {
    const batch = this.#read(since)
    // A failure is reported when the batch is awaited.
    batch.catch(() => {})
    this.#ahead = { since, batch }
  }

  /** Documents that are too much for a process are tried again in smaller batches, in the end one by one. */
  async #read(since: number): Promise<MappedBatch> {
    const { design, functions, run } = this.#options
    for (;;) {
      run.signal?.throwIfAborted()
      const mapping = new DocumentMapping(functions, mapProgram(design), run)
      const { documents: _, ...batch } = await this.#mapping(since, mapping)
      try {
        const finishing = mapping.finish()
        if (!batch.isLast) this.#readDocumentsAhead(batch.updateSequence)
        const calls = await finishing
        this.#adapt(batch.changes, calls)
        return { ...batch, calls }
      } catch (error) {
        if (!isEndOfProcess(error) || batch.changes <= 1) throw error
        this.#changes = Math.ceil(batch.changes / 8)
      }
    }
  }

  /** Adds the documents after a sequence to what is mapped: those that were read ahead, or others as they are read. */
  async #mapping(since: number, mapping: DocumentMapping): Promise<ChangedBatch> {
    const ahead = this.#documentsAhead
    this.#documentsAhead = undefined
    const read = await ahead?.read
    // Batches may have become smaller since it was read.
    if (read && ahead?.since === since && read.changes <= this.#changes) {
      mapping.add(read.documents)
      return read
    }
    try {
      return await this.#readChanged(since, (documents) => mapping.add(documents))
    } catch (error) {
      await mapping.stop()
      throw error
    }
  }

  #readDocumentsAhead(since: number): void {
    // What is to be mapped is sent first.
    const read = nextTurn().then(() => this.#readChanged(since))
    // A failure is reported when the batch is awaited.
    read.catch(() => {})
    this.#documentsAhead = { since, read }
  }

  /** The snapshot is released when all is read: functions that take long do not hold it. */
  async #readChanged(since: number, onDocuments?: DocumentListener): Promise<ChangedBatch> {
    const { source, design, limits } = this.#options
    const { view: first, since: firstSince, firstPage, ...known } = this.#first ?? {}
    this.#first = undefined
    using view = first ?? source.view()
    return await readChanged(
      view,
      since,
      design,
      { ...limits, changes: this.#changes },
      { ...known, onDocuments, firstPage: since === firstSince ? firstPage : undefined },
    )
  }

  #adapt(changes: number, calls: readonly MappedCall[]): void {
    const emitted = calls.reduce((bytes, { batch }) => bytes + batch.block.length, 0)
    const fitting = emitted > EMITTED_BYTES ? Math.floor((changes * EMITTED_BYTES) / emitted) : 2 * this.#changes
    this.#changes = Math.max(1, Math.min(fitting, this.#mostChanges))
  }
}

/** The process ran out of memory or crashed: which document causes it is found when documents are mapped one by one. */
function isEndOfProcess(error: unknown): boolean {
  return error instanceof RequestError && error.error === 'os_process_error' && error.reason.startsWith('{exit_status')
}
