/**
 * Sorted runs merged into one, in the order of their keys. A document may have changed between two runs: then what the
 * older one holds of it is left out.
 */
import { decodeDocumentRows } from '../document-rows.ts'
import { escapeId, idOfDocumentKey, rowKeyOf } from '../index-layout.ts'
import type { SortedRow, SortedRun } from './sorted-runs.ts'

const PORTION_ROWS = 2048

/** The runs are in the order in which they were made. */
export async function* mergedRuns(runs: readonly SortedRun[]): AsyncGenerator<readonly SortedRow[]> {
  const [only] = runs
  if (only && runs.length === 1) {
    yield* only.portions()
    return
  }
  const cursors = await Promise.all(runs.map((run) => Cursor.begin(run)))
  let portion: SortedRow[] = []
  for (let rows = nextRows(cursors); rows.length > 0; rows = nextRows(cursors)) {
    const newest = rows.at(-1)!
    const [key] = newest.current!
    if (idOfDocumentKey(key)) for (const older of rows.slice(0, -1)) older.supersede()
    if (!newest.isSuperseded()) portion.push(newest.current!)
    for (const cursor of rows) if (!cursor.step()) await cursor.refill()
    if (portion.length >= PORTION_ROWS) {
      yield portion
      portion = []
    }
  }
  yield portion
}

class Cursor {
  /** The row at which it is; undefined at the end. */
  current: SortedRow | undefined
  readonly #portions: AsyncIterator<readonly SortedRow[]> | Iterator<readonly SortedRow[]>
  readonly #superseded = new Set<string>()
  #portion: readonly SortedRow[] = []
  #next = 0

  static async begin(run: SortedRun): Promise<Cursor> {
    const cursor = new Cursor(run)
    await cursor.refill()
    return cursor
  }

  private constructor(run: SortedRun) {
    const portions = run.portions()
    this.#portions = Symbol.asyncIterator in portions ? portions[Symbol.asyncIterator]() : portions[Symbol.iterator]()
  }

  /** Goes to the next row; false when it must be read first. */
  step(): boolean {
    this.current = this.#portion[this.#next++]
    return this.current !== undefined
  }

  /** Reads rows and goes to the first of them. */
  async refill(): Promise<void> {
    do {
      const { value, done } = await this.#portions.next()
      if (done) return
      this.#portion = value
      this.#next = 0
    } while (!this.step())
  }

  /** The document at which it is made other rows later: those of this run do not count. */
  supersede(): void {
    const [key, rows] = this.current!
    const id = idOfDocumentKey(key)!
    const escapedId = escapeId(id)
    for (const place of decodeDocumentRows(rows)) {
      this.#superseded.add(rowKeyOf(place, escapedId).toString('latin1'))
    }
  }

  isSuperseded(): boolean {
    return this.#superseded.size > 0 && this.#superseded.has(this.current![0].toString('latin1'))
  }
}

/** The cursors that are at the least key, oldest run first; none when all are at their end. */
function nextRows(cursors: readonly Cursor[]): Cursor[] {
  let least: Cursor[] = []
  for (const cursor of cursors) {
    if (!cursor.current) continue
    const order = least[0] ? Buffer.compare(cursor.current[0], least[0].current![0]) : -1
    if (order < 0) least = [cursor]
    else if (order === 0) least.push(cursor)
  }
  return least
}
