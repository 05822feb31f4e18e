/**
 * Reads a database in batches of mapped documents, from a sequence on. The batch after the one that was asked for is read
 * and mapped ahead, so that functions work while rows are written.
 */
import type { DatabaseView } from '../database/database-view.ts'
import type { Functions, Run } from '../functions/functions.ts'
import { type BatchLimits, readChanged } from './changed-documents.ts'
import { type MappedCall, mapDocuments } from './mapped-documents.ts'
import { mapProgram, type ViewDesign } from './view-design.ts'

/** A database as indexes read it: everything, whoever asks. */
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
  /** Whether nothing was left to be read. */
  readonly isLast: boolean
}

export interface BatchReaderOptions {
  readonly source: IndexSource
  readonly design: ViewDesign
  readonly functions: Functions
  readonly run: Run
  readonly limits: BatchLimits
}

export class BatchReader {
  readonly #options: BatchReaderOptions
  #limits: BatchLimits
  #ahead: { readonly since: number; readonly batch: Promise<MappedBatch> } | undefined

  constructor(options: BatchReaderOptions) {
    this.#options = options
    this.#limits = options.limits
  }

  /** What follows a sequence. Batches are wanted in their order. */
  async next(since: number): Promise<MappedBatch> {
    const ahead = this.#ahead?.since === since ? this.#ahead.batch : undefined
    this.#ahead = undefined
    const batch = await (ahead ?? this.#read(since))
    if (!batch.isLast) this.#readAhead(batch.updateSequence)
    return batch
  }

  /** From now on batches have so many changes at most. What was read ahead is forgotten. */
  async shrink(changes: number): Promise<void> {
    await this.stop()
    this.#limits = { ...this.#limits, changes }
  }

  /** Resolves when nothing is under way any more. */
  async stop(): Promise<void> {
    await this.#ahead?.batch.catch(() => {})
    this.#ahead = undefined
  }

  #readAhead(since: number): void {
    const batch = this.#read(since)
    // Heard of when its turn comes.
    batch.catch(() => {})
    this.#ahead = { since, batch }
  }

  async #read(since: number): Promise<MappedBatch> {
    const { source, design, functions, run } = this.#options
    run.signal?.throwIfAborted()
    using view = source.view()
    const [batch, { purgeSequence }] = await Promise.all([readChanged(view, since, design, this.#limits), view.state()])
    // The state is let go before the functions take their time.
    view.release()
    const calls = await mapDocuments(functions, mapProgram(design), batch.documents, run)
    const { updateSequence, changes, isLast } = batch
    return { calls, updateSequence, purgeSequence, changes, isLast }
  }
}
