/**
 * Reads items of a tree from one snapshot: a page at a time, several pages in one turn where they do not depend on each
 * other. A boundary at or before a key is found with a plain read where the hints are right, and with a page of one
 * row, read backwards, where they are not: that takes ten times as long.
 */
import { compareBytes } from '../../encoding/bytes/short-bytes.ts'
import { type KeyRange, PAGE_ROWS, type Page, type Snapshot } from '../store.ts'
import { decodeNode, type Item, PlacedRow, type Run, SENTINEL, type TreeLayout, weightOfAll } from './tree-layout.ts'

/** Pages requested in one turn: a synchronous engine reads all of them before other work continues. */
const PAGES_A_TURN = 64

export interface RowReading {
  /** Undefined when every row weighs 1: rows are then counted by their keys. */
  readonly weightOf: ((value: Buffer) => number) | undefined
  readonly keepValues: boolean
}

/** Asks for the last node of a level at or before a key, or before it only; without a key for the last one of all. */
export interface Lookup {
  readonly level: number
  readonly key: Uint8Array | undefined
  readonly isBefore?: boolean
}

/** A node, undefined when the level is not there, or that no hint led to an answer. */
type Guess = Item | undefined | 'unknown'

/** From which of several boundaries on they fall into a node. */
export interface GuessedNode {
  readonly first: number
  readonly node: Item | undefined
}

export class TreeReader {
  readonly #snapshot: Snapshot
  readonly #layout: TreeLayout
  readonly #rows: RowReading
  readonly #hints: BoundaryHints

  constructor(snapshot: Snapshot, layout: TreeLayout, rows: RowReading, hints: BoundaryHints) {
    this.#snapshot = snapshot
    this.#layout = layout
    this.#rows = rows
    this.#hints = hints
  }

  /** Whether a node weighs as much as there are rows in it. */
  get countsRows(): boolean {
    return this.#rows.weightOf === undefined
  }

  /** The sentinels of the levels that are there, lowest first: the last one stands for the whole tree. */
  async sentinels(): Promise<Item[]> {
    const levels = Array.from({ length: this.#layout.levels }, (_, i) => this.#layout.storeKey(i + 1, SENTINEL))
    const values = await this.#snapshot.getMany(levels)
    return values.filter((value) => value !== undefined).map((value) => decodeNode(SENTINEL, value))
  }

  /** An answer is undefined when its level is not there. */
  async find(lookups: readonly Lookup[]): Promise<(Item | undefined)[]> {
    const guesses = await this.guess(lookups)
    if (areKnown(guesses)) return guesses
    const unknown = lookups.filter((_, i) => guesses[i] === 'unknown')
    const found = await inTurns(unknown, (lookup) => this.#search(lookup))
    let next = 0
    return guesses.map((guess) => (guess === 'unknown' ? found[next++] : guess))
  }

  /** What the hints lead to, in one read of many. Look-ups next to each other often lead to the same node. */
  async guess(lookups: readonly Lookup[]): Promise<Guess[]> {
    const hints = lookups.map(({ level, key, isBefore }) =>
      key && isBefore ? this.#hints.before(level, key) : this.#hints.floor(level, key),
    )
    const isRepeated = (i: number) => hints[i] === hints[i - 1] && lookups[i]!.level === lookups[i - 1]?.level
    const keys = hints.flatMap((hint, i) => (isRepeated(i) ? [] : [this.#layout.storeKey(lookups[i]!.level, hint)]))
    const values = await this.#snapshot.getMany(keys)
    let next = 0
    let node: Item | undefined
    return lookups.map((lookup, i) => {
      const hint = hints[i]!
      if (!isRepeated(i)) {
        const value = values[next++]
        node = value && decodeNode(hint, value)
      }
      return node ? follow(lookup, node) : this.#giveUp(lookup, hint)
    })
  }

  /**
   * The same for boundaries in their order: the nodes that they fall into, each with the first of those that do. Without
   * a node where the hints are of no use. Takes little longer for many that fall into the same node.
   */
  async guessInOrder(level: number, changes: readonly { readonly boundary: Buffer }[]): Promise<GuessedNode[]> {
    const firsts: number[] = []
    const floors: Buffer[] = []
    for (let first = 0; first < changes.length; ) {
      const { floor, next } = this.#hints.around(level, changes[first]!.boundary)
      firsts.push(first)
      floors.push(floor)
      first = next ? firstFrom(changes, first + 1, next) : changes.length
    }
    const values = await this.#snapshot.getMany(floors.map((floor) => this.#layout.storeKey(level, floor)))
    return firsts.flatMap((first, i): GuessedNode[] => {
      const floor = floors[i]!
      const value = values[i]
      if (!value) {
        this.#hints.forget(level, floor)
        return [{ first, node: undefined }]
      }
      const node = decodeNode(floor, value)
      // Boundaries may have come after the one that is known.
      const end = firsts[i + 1] ?? changes.length
      const covered = node.next ? firstFrom(changes, first, node.next) : end
      if (covered <= first) return [{ first, node: undefined }]
      return covered < end
        ? [
            { first, node },
            { first: covered, node: undefined },
          ]
        : [{ first, node }]
    })
  }

  /**
   * The items of a level from the boundary `start` on, past `through` and up to the next boundary of the level above:
   * what that level's node at `start` stands for, and those after it as far as `through`.
   */
  async run(level: number, start: Buffer, through: Buffer): Promise<Run> {
    const items: Item[] = []
    let end: Buffer | undefined
    scan: for await (const page of this.pages(level, start, undefined, 2 * this.#layout.fanOut)) {
      for (const item of page) {
        if (this.#layout.reachOf(item) > level) {
          const boundary = this.#layout.boundaryOf(item.key)
          if (Buffer.compare(boundary, through) > 0) {
            end = boundary
            break scan
          }
        }
        items.push(item)
      }
    }
    // Where values are kept every run is read anyway, and no hint saves it.
    if (level > 0 && !this.#rows.keepValues) this.#hints.learn(level, items.map(keyOf))
    return { start, items: this.#layout.inOrder(items), end }
  }

  /** All items of a level from one key to another. Mostly they fit into one page. */
  async range(level: number, from: Uint8Array | undefined, to: Uint8Array | undefined): Promise<Item[]> {
    const limits = { rows: PAGE_ROWS, keysOnly: level === 0 && this.#readsKeysOnly, expectsMany: true }
    const first = await this.#snapshot.page(this.#layout.range(level, from, to), limits)
    const items = this.#itemsOf(level, first)
    for (let rest = first.next; rest; ) {
      const page: Page = await this.#snapshot.page(rest, limits)
      for (const item of this.#itemsOf(level, page)) items.push(item)
      rest = page.next
    }
    return items
  }

  /** What the rows from one key to another weigh; they are few. */
  async weight(from: Uint8Array, to: Uint8Array): Promise<number> {
    if (this.#rows.weightOf === undefined) return this.#snapshot.count(this.#layout.range(0, from, to))
    let weight = 0
    for await (const rows of this.pages(0, from, to, 2 * this.#layout.fanOut)) weight += weightOfAll(rows)
    return weight
  }

  async *pages(
    level: number,
    from: Uint8Array | undefined,
    to: Uint8Array | undefined,
    rows: number,
  ): AsyncGenerator<Item[]> {
    const keysOnly = level === 0 && this.#readsKeysOnly
    let rest: KeyRange | undefined = this.#layout.range(level, from, to)
    while (rest) {
      const page: Page = await this.#snapshot.page(rest, { rows: Math.min(rows, PAGE_ROWS), keysOnly })
      yield this.#itemsOf(level, page)
      rest = page.next
    }
  }

  get #readsKeysOnly(): boolean {
    return !this.#rows.keepValues && this.#rows.weightOf === undefined
  }

  #itemsOf(level: number, page: Page): Item[] {
    return level === 0 ? this.#rowsOf(page) : this.#nodesOf(level, page)
  }

  #giveUp({ level }: Lookup, hint: Buffer): Guess {
    if (hint.length === 0) return undefined
    this.#hints.forget(level, hint)
    return 'unknown'
  }

  async #search({ level, key, isBefore }: Lookup): Promise<Item | undefined> {
    const to = key && !isBefore ? Buffer.concat([key, AFTER]) : key
    let rest: KeyRange | undefined = { ...this.#layout.range(level, SENTINEL, to), reverse: true }
    while (rest) {
      const page: Page = await this.#snapshot.page(rest, { rows: 1 })
      const [node] = this.#nodesOf(level, page)
      if (node) {
        this.#hints.learn(level, [node.key])
        return node
      }
      rest = page.next
    }
    return undefined
  }

  #rowsOf(page: Page): Item[] {
    const { weightOf, keepValues } = this.#rows
    const offset = this.#layout.keyOffset(0)
    const { length, block, bounds } = page
    const items: Item[] = []
    for (let row = 0; row < length; row++) {
      const weight = weightOf ? weightOf(page.value(row)) : 1
      const keyAt = bounds[3 * row]! + offset
      const valueAt = bounds[3 * row + 1]!
      items.push(new PlacedRow(block, keyAt, valueAt, keepValues ? bounds[3 * row + 2]! : valueAt, weight))
    }
    return items
  }

  #nodesOf(level: number, page: Page): Item[] {
    const offset = this.#layout.keyOffset(level)
    const nodes: Item[] = []
    for (let row = 0; row < page.length; row++) {
      nodes.push(decodeNode(page.key(row).subarray(offset), page.value(row)))
    }
    return nodes
  }
}

function areKnown(guesses: Guess[]): guesses is (Item | undefined)[] {
  return !guesses.includes('unknown')
}

function keyOf({ key }: Item): Buffer {
  return key
}

/** The node is the answer when the next one begins beyond the key. */
function follow({ key, isBefore }: Lookup, node: Item): Guess {
  if (!node.next) return node
  if (!key) return 'unknown'
  return compareBytes(key, node.next) < (isBefore ? 1 : 0) ? node : 'unknown'
}

/** The first change, from this one on, that is not before the boundary; they are in the order of theirs. */
export function firstFrom(changes: readonly { readonly boundary: Buffer }[], from: number, boundary: Buffer): number {
  // In steps that double, since it mostly is near.
  let low = from
  let step = 1
  while (low + step <= changes.length && compareBytes(changes[low + step - 1]!.boundary, boundary) < 0) {
    low += step
    step *= 2
  }
  let high = Math.min(changes.length, low + step - 1)
  while (low < high) {
    const middle = (low + high) >> 1
    if (compareBytes(changes[middle]!.boundary, boundary) < 0) low = middle + 1
    else high = middle
  }
  return low
}

/** The first key after another begins with it and has this at its end. */
const AFTER = Buffer.of(0)

/** Works through a list in turns, each a bounded number of reads at once. */
export async function inTurns<T, R>(list: readonly T[], read: (each: T) => Promise<R>): Promise<R[]> {
  const results: R[] = []
  for (let first = 0; first < list.length; first += PAGES_A_TURN) {
    results.push(...(await Promise.all(list.slice(first, first + PAGES_A_TURN).map(read))))
  }
  return results
}

/** Of one level: some megabytes at most. Beyond that the cache is cleared. */
const HINTS_LIMIT = 32_768

/**
 * Boundaries that were met lately: where to look first for the one at or before a key. A hint may be out of date and does
 * no harm: the reader checks it against the node in its own snapshot. So hints need not be updated when a tree changes, in
 * this process or another.
 */
export class BoundaryHints {
  readonly #levels: Buffer[][] = []
  /** Of each level the answer before. Questions come in the order of their keys, so it mostly is the next one too. */
  readonly #lastCounts: number[] = []

  /** The last known boundary of a level at or before the key, or of all; the sentinel when none is known. */
  floor(level: number, key: Uint8Array | undefined): Buffer {
    const known = this.#levels[level] ?? []
    if (!key) return known.at(-1) ?? SENTINEL
    const last = this.#lastCounts[level]
    const count = last !== undefined && isCountThrough(known, key, last) ? last : countThrough(known, key)
    this.#lastCounts[level] = count
    return known[count - 1] ?? SENTINEL
  }

  /** The known boundaries that a key lies between; the first is the sentinel, the second undefined when none is known. */
  around(level: number, key: Uint8Array): { readonly floor: Buffer; readonly next: Buffer | undefined } {
    const floor = this.floor(level, key)
    return { floor, next: this.#levels[level]?.[this.#lastCounts[level] ?? 0] }
  }

  /** The last known boundary before the key. */
  before(level: number, key: Uint8Array): Buffer {
    const known = this.#levels[level] ?? []
    return known[countBefore(known, key) - 1] ?? SENTINEL
  }

  /** Boundaries in their order, without others between them; what was known of that stretch is replaced. */
  learn(level: number, boundaries: readonly Buffer[]): void {
    const met = boundaries[0]?.length === 0 ? boundaries.slice(1) : boundaries
    const [first, last] = [met[0], met.at(-1)]
    if (!first || !last) return
    this.#levels[level] ??= []
    const known = this.#levels[level]
    const start = countBefore(known, first)
    const count = countThrough(known, last) - start
    if (count === met.length && met.every((boundary, i) => boundary.equals(known[start + i]!))) return
    // Copies: what is met is often a slice of a page, which it would keep in memory.
    const copies = met.map((boundary) => Buffer.from(boundary))
    if (known.length + met.length <= HINTS_LIMIT) known.splice(start, count, ...copies)
    else this.#levels[level] = copies.slice(-HINTS_LIMIT)
  }

  forget(level: number, boundary: Buffer): void {
    const known = this.#levels[level] ?? []
    const at = countBefore(known, boundary)
    if (known[at]?.equals(boundary)) known.splice(at, 1)
  }
}

/** How many of the sorted keys are at or before the one given. */
function countThrough(keys: readonly Buffer[], key: Uint8Array): number {
  let low = 0
  let high = keys.length
  while (low < high) {
    const middle = (low + high) >> 1
    if (compareBytes(keys[middle]!, key) <= 0) low = middle + 1
    else high = middle
  }
  return low
}

/** Whether it is this many. */
function isCountThrough(keys: readonly Buffer[], key: Uint8Array, count: number): boolean {
  if (count > keys.length || (count > 0 && compareBytes(keys[count - 1]!, key) > 0)) return false
  return count === keys.length || compareBytes(keys[count]!, key) > 0
}

function countBefore(keys: readonly Buffer[], key: Uint8Array): number {
  const count = countThrough(keys, key)
  return keys[count - 1]?.equals(key) ? count - 1 : count
}
