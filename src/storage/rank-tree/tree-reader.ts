/**
 * Reads items of a tree from one snapshot: a page at a time, several pages in one turn where they do not depend on each
 * other.
 */
import { type KeyRange, PAGE_ROWS, type Page, type Snapshot } from '../store.ts'
import { decodeNode, type Item, NO_VALUE, SENTINEL } from './tree-item.ts'
import type { TreeLayout } from './tree-layout.ts'

/** Pages asked for in one turn: a synchronous engine reads them all before anybody else goes on. */
const PAGES_A_TURN = 64

const AFTER = Buffer.of(0)

export interface RowReading {
  /** Undefined when every row weighs 1: rows are then counted by their keys. */
  readonly weightOf: ((value: Buffer) => number) | undefined
  readonly keepValues: boolean
}

export interface Interval {
  /** In the order of their keys. */
  readonly items: Item[]
  /** Whether the level ends with them. */
  readonly last: boolean
}

export class TreeReader {
  readonly #snapshot: Snapshot
  readonly #layout: TreeLayout
  readonly #rows: RowReading

  constructor(snapshot: Snapshot, layout: TreeLayout, rows: RowReading) {
    this.#snapshot = snapshot
    this.#layout = layout
    this.#rows = rows
  }

  /** The sentinels of the levels that are there, lowest first: the last one stands for the whole tree. */
  async sentinels(): Promise<Item[]> {
    const levels = Array.from({ length: this.#layout.levels }, (_, i) => this.#layout.storeKey(i + 1, SENTINEL))
    const values = await this.#snapshot.getMany(levels)
    return values.filter((value) => value !== undefined).map((value) => decodeNode(SENTINEL, value))
  }

  /** The last node of a level at or before the key, or the last of all; undefined when the level is not there. */
  async floor(level: number, key: Uint8Array | undefined): Promise<Item | undefined> {
    return this.before(level, key && Buffer.concat([key, AFTER]))
  }

  /** The last node of a level before the key. */
  async before(level: number, key: Uint8Array | undefined): Promise<Item | undefined> {
    return this.#one(level, { ...this.#layout.range(level, SENTINEL, key), reverse: true })
  }

  /** The first node of a level at or after the key. */
  async ceiling(level: number, key: Uint8Array): Promise<Item | undefined> {
    return this.#one(level, this.#layout.range(level, key))
  }

  /** All items of a level from one key to another. */
  async range(level: number, from: Uint8Array | undefined, to: Uint8Array | undefined): Promise<Item[]> {
    const items: Item[] = []
    for await (const each of this.pages(level, from, to, PAGE_ROWS)) for (const item of each) items.push(item)
    return items
  }

  /**
   * The items of a level from `start` on, past `through` and up to the next boundary of the level above: what that
   * level's node at `start` stands for, and those after it as far as `through`.
   */
  async interval(level: number, start: Buffer, through: Buffer): Promise<Interval> {
    const items: Item[] = []
    let long = false
    for await (const page of this.pages(level, start, undefined, 2 * this.#layout.fanOut)) {
      for (const item of page) {
        const boundary = this.#layout.boundaryOf(item.key)
        if (this.#layout.levelOf(boundary) > level && Buffer.compare(boundary, through) > 0) {
          return { items: long ? sorted(items) : items, last: false }
        }
        items.push(item)
        long ||= this.#layout.isLong(item.key)
      }
    }
    return { items: long ? sorted(items) : items, last: true }
  }

  async *pages(
    level: number,
    from: Uint8Array | undefined,
    to: Uint8Array | undefined,
    rows: number,
  ): AsyncGenerator<Item[]> {
    let rest: KeyRange | undefined = this.#layout.range(level, from, to)
    while (rest) {
      const page: Page = await this.#snapshot.page(rest, {
        rows: Math.min(rows, PAGE_ROWS),
        keysOnly: this.#isKeysOnly(level),
      })
      yield this.#items(level, page)
      rest = page.next
    }
  }

  async #one(level: number, range: KeyRange): Promise<Item | undefined> {
    for (let rest: KeyRange | undefined = range; rest; ) {
      const page: Page = await this.#snapshot.page(rest, { rows: 1 })
      if (page.length > 0) return this.#items(level, page)[0]
      rest = page.next
    }
    return undefined
  }

  #isKeysOnly(level: number): boolean {
    return level === 0 && !this.#rows.keepValues && this.#rows.weightOf === undefined
  }

  #items(level: number, page: Page): Item[] {
    const { weightOf, keepValues } = this.#rows
    const offset = this.#layout.keyOffset(level)
    const items: Item[] = []
    for (let row = 0; row < page.length; row++) {
      const key = page.key(row).subarray(offset)
      if (level > 0) items.push(decodeNode(key, page.value(row)))
      else {
        const weight = weightOf ? weightOf(page.value(row)) : 1
        items.push({ key, weight, value: keepValues ? page.value(row) : NO_VALUE })
      }
    }
    return items
  }
}

/** Works through a list in turns, each a bounded number of reads at once. */
export async function inTurns<T, R>(list: readonly T[], read: (each: T) => Promise<R>): Promise<R[]> {
  const results: R[] = []
  for (let first = 0; first < list.length; first += PAGES_A_TURN) {
    results.push(...(await Promise.all(list.slice(first, first + PAGES_A_TURN).map(read))))
  }
  return results
}

/** The store's order differs from that of the keys among very long ones only. */
function sorted(items: Item[]): Item[] {
  return items.sort((a, b) => Buffer.compare(a.key, b.key))
}
