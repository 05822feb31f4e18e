/**
 * Reads changes from a cursor, block by block, and never the same change twice. It holds no snapshot. Each block is read from
 * the view that it is given, or else from the newest state, once for all readers with the same cursor and options.
 */
import type { KeyRange, Page } from '../../storage/store.ts'
import type { Database } from '../database.ts'
import type { DatabaseView, LastingView } from '../database-view.ts'
import { summarizeRecord } from '../layout/document-record.ts'
import { documentKey } from '../layout/keys.ts'
import type { IdFilter } from './change-filter.ts'
import { type ChangeBlock, type ChangesWanted, hasChangesBehind, readChanges, readChangesAt } from './changes.ts'
import type { ReadingPlace } from './changes-hub.ts'

export interface ChangesQuery extends ChangesWanted {
  /** Changes behind this sequence are wanted. */
  readonly since: number
  readonly descending: boolean
  readonly limit: number
  /** Readers with the same name get the same changes; undefined for one that does not share. */
  readonly sharedAs: string | undefined
}

export class ChangesReader {
  readonly #database: Database
  readonly #query: ChangesQuery
  /** Of documents that can be named: where their changes lie, as long as they are being gone through. */
  #named: NamedChanges | undefined
  #isFirst = true
  #cursor: number
  #left: number
  #shown: number | undefined

  constructor(database: Database, query: ChangesQuery) {
    this.#database = database
    this.#query = query
    this.#cursor = query.descending ? Number.POSITIVE_INFINITY : query.since
    this.#left = query.limit
  }

  /** The last sequence that was read: a feed that continues after it misses nothing. */
  get cursor(): number {
    return this.#cursor
  }

  /** The last sequence that it gave. */
  get shown(): number | undefined {
    return this.#shown
  }

  /** Whether it gave as many as were wanted. */
  get isSatisfied(): boolean {
    return this.#left === 0
  }

  /** The next block out of this view. */
  async nextIn(view: LastingView): Promise<ChangeBlock> {
    // A block is of one state, whatever it is made of.
    using _pin = view.pin()
    return this.take(await this.#read(view))
  }

  /** The next block out of the newest state. */
  async next(): Promise<ChangeBlock> {
    const place = this.#sharedPlace()
    const readNewest = async () => {
      using view = this.#database.view()
      return await this.#read(view)
    }
    return this.take(await (place ? this.#database.changes.shared(place, readNewest) : readNewest()))
  }

  /**
   * How many changes may be behind what it gave: 0 exactly when there are none, else never too few. Clients go on until it
   * is 0. A number of sequences, since counting the changes would mean to read them.
   */
  async pendingIn(view: DatabaseView): Promise<number> {
    const { descending } = this.#query
    const sequence = this.#cursor
    if (!(await hasChangesBehind(view, { sequence, descending }))) return 0
    const { updateSequence } = await view.state()
    return descending ? Math.min(sequence - 1, updateSequence) : updateSequence - sequence
  }

  /** The next block, if another reader just read it and nothing is behind it; to be taken when it was given. */
  atHand(): ChangeBlock | undefined {
    const place = this.#sharedPlace()
    return place && this.#database.changes.atHand(place)
  }

  /** Goes on behind this block. */
  take(block: ChangeBlock): ChangeBlock {
    this.#isFirst = false
    this.#cursor = block.looked
    this.#left -= block.rows
    this.#shown = block.shown ?? this.#shown
    return block
  }

  #sharedPlace(): ReadingPlace | undefined {
    const { sharedAs } = this.#query
    // What is read for another one may have begun before a commit that this client knows of and this process does not.
    if (this.#isFirst && this.#database.hasOtherWriters) return undefined
    return sharedAs === undefined ? undefined : { sharedAs, cursor: this.#cursor, left: this.#left }
  }

  async #read(view: DatabaseView): Promise<ChangeBlock> {
    const { filter, descending } = this.#query
    if (this.#isFirst && filter?.by === 'id') this.#named = await this.#lookUp(view, filter)
    const place = { sequence: this.#cursor, descending }
    if (this.#left === 0) return { rows: 0, text: NO_TEXT, looked: this.#cursor, shown: undefined, isEnd: false }
    const named = this.#named
    if (!named) return readChanges(view, place, this.#left, this.#query)
    const behind = named.sequences.filter((each) => (descending ? each < this.#cursor : each > this.#cursor))
    const block = await readChangesAt(view, behind, place, this.#left, this.#query)
    if (!block.isEnd) return block
    this.#named = undefined
    // Nothing else up to the newest change can be wanted.
    return descending ? block : { ...block, looked: Math.max(block.looked, named.updateSequence) }
  }

  /** Where the changes of the documents lie, if looking them up is less work than going through all changes. */
  async #lookUp(view: DatabaseView, { documents }: IdFilter): Promise<NamedChanges | undefined> {
    const { updateSequence } = await view.state()
    const most = this.#query.descending ? updateSequence : updateSequence - this.#cursor
    if (documents !== 'designs' && documents.length > most) return undefined
    const found = documents === 'designs' ? await designSequences(view) : await sequencesOf(view, documents)
    const order = this.#query.descending ? -1 : 1
    return { sequences: found.sort((a, b) => order * (a - b)), updateSequence }
  }
}

const NO_TEXT = Buffer.alloc(0)

interface NamedChanges {
  /** In the order in which they are wanted. */
  readonly sequences: readonly number[]
  /** The newest sequence when they were looked up. */
  readonly updateSequence: number
}

async function sequencesOf({ snapshot }: DatabaseView, ids: readonly string[]): Promise<number[]> {
  const stored = await snapshot.getMany(ids.filter((id) => id.isWellFormed()).map(documentKey))
  return stored.flatMap((record) => (record ? [summarizeRecord(record).sequence] : []))
}

async function designSequences({ snapshot }: DatabaseView): Promise<number[]> {
  const sequences: number[] = []
  let rest: KeyRange | undefined = { from: documentKey('_design/'), to: documentKey('_design0') }
  while (rest) {
    const page: Page = await snapshot.page(rest)
    for (let row = 0; row < page.length; row++) sequences.push(summarizeRecord(page.value(row)).sequence)
    rest = page.next
  }
  return sequences
}
