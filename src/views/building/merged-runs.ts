/** Merges sorted runs in key order. If a document changed between two runs, its rows in the older run are left out. */
import { compareKeys, PackedRowsWriter, packedKey, packedValue } from '../../storage/rows/packed-rows.ts'
import type { PackedRows } from '../../storage/store.ts'
import {
  decodeDocumentRows,
  escapeId,
  idOfDocumentKey,
  NO_SCOPE,
  rowKeyOf,
  scopeOfDocument,
} from '../layout/index-layout.ts'
import { PORTION_BYTES, PORTION_ROWS } from './gathered-rows.ts'
import type { SortedRun } from './sorted-runs.ts'

/** The runs are in the order in which they were made. */
export async function* mergedRuns(
  runs: readonly SortedRun[],
  { isPartitioned }: { readonly isPartitioned: boolean },
): AsyncGenerator<PackedRows> {
  const [only] = runs
  if (only && runs.length === 1) {
    yield* only.portions()
    return
  }
  const cursors = await Promise.all(runs.map((run) => Cursor.begin(run)))
  let portion = new PackedRowsWriter()
  for (let rows = nextRows(cursors); rows.length > 0; rows = nextRows(cursors)) {
    const newest = rows.at(-1)!
    for (let older = 0; older < rows.length - 1; older++) rows[older]!.supersede({ isPartitioned })
    if (!newest.isSuperseded()) portion.copy(newest.rows, newest.row)
    for (const cursor of rows) if (!cursor.step()) await cursor.refill()
    if (portion.length >= PORTION_ROWS || portion.end >= PORTION_BYTES) {
      yield portion
      portion = new PackedRowsWriter()
    }
  }
  yield portion
}

const NO_ROWS: PackedRows = { length: 0, block: Buffer.alloc(0), bounds: new Uint32Array(0) }

class Cursor {
  /** The current row of the page. */
  rows: PackedRows = NO_ROWS
  row = -1
  readonly #portions: AsyncIterator<PackedRows> | Iterator<PackedRows>
  readonly #superseded = new Set<string>()

  static async begin(run: SortedRun): Promise<Cursor> {
    const cursor = new Cursor(run)
    await cursor.refill()
    return cursor
  }

  private constructor(run: SortedRun) {
    const portions = run.portions()
    this.#portions = Symbol.asyncIterator in portions ? portions[Symbol.asyncIterator]() : portions[Symbol.iterator]()
  }

  get isAtEnd(): boolean {
    return this.row >= this.rows.length
  }

  /** Moves to the next row; false if it must be read first. */
  step(): boolean {
    this.row++
    return !this.isAtEnd
  }

  /** Reads rows and moves to the first of them. */
  async refill(): Promise<void> {
    do {
      const { value, done } = await this.#portions.next()
      if (done) {
        this.rows = NO_ROWS
        return
      }
      this.rows = value
      this.row = -1
    } while (!this.step())
  }

  /** The current document has rows in a later run: its rows in this run are dropped. */
  supersede({ isPartitioned }: { readonly isPartitioned: boolean }): void {
    const id = idOfDocumentKey(packedKey(this.rows, this.row))
    if (!id) return
    const escapedId = escapeId(id)
    const scope = isPartitioned ? scopeOfDocument(escapedId) : NO_SCOPE
    for (const place of decodeDocumentRows(packedValue(this.rows, this.row))) {
      this.#superseded.add(rowKeyOf(place, escapedId, scope).toString('latin1'))
    }
  }

  isSuperseded(): boolean {
    return this.#superseded.size > 0 && this.#superseded.has(packedKey(this.rows, this.row).toString('latin1'))
  }
}

/** The cursors at the least key, oldest run first; empty when all are at their end. */
function nextRows(cursors: readonly Cursor[]): Cursor[] {
  let least: Cursor[] = []
  for (const cursor of cursors) {
    if (cursor.isAtEnd) continue
    const order = least[0] ? compareKeys(cursor.rows, cursor.row, least[0].rows, least[0].row) : -1
    if (order < 0) least = [cursor]
    else if (order === 0) least.push(cursor)
  }
  return least
}
