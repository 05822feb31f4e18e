/**
 * Finds what a list of row changes touches on every level of a tree, and reads what must be read for it.
 *
 * A span is an interval of a level that changes fall into, or several of them where a boundary between them goes. Most
 * spans of a tree of counts need only their node: its weight moves by what the changes add. A span is split again, out of
 * the items it is made of, when a boundary comes or goes in it, and always where reductions are kept.
 *
 * A few changes are looked up on all levels at once: one round trip where the hints are right, two where not, and one
 * more for spans to be split again, which one change in 64 needs. Many changes go from the top level down, since they meet
 * in few nodes up there, and where the hints do not know them, all nodes of an interval are read with one page.
 */
import assert from 'node:assert/strict'
import { compareBytes } from '../../encoding/bytes/short-bytes.ts'
import { type Item, type Run, SENTINEL, type TreeLayout } from './tree-layout.ts'
import { firstFrom, inTurns, type Lookup, type TreeReader } from './tree-reader.ts'

const FEW = 8

export interface TouchingChange {
  readonly boundary: Buffer
  /** The highest level that the boundary belongs to. */
  readonly level: number
  readonly kind: 'inserted' | 'removed' | 'kept'
}

export interface Span {
  readonly start: Buffer
  /** The one at the start; undefined when the level is not there. */
  readonly node: Item | undefined
  /** The row changes that touch it: from this one to that one, exclusive. */
  readonly first: number
  end: number
  isCutAnew: boolean
  /** What the span is made of, where it was read. */
  run: Run | undefined
}

export class TouchedSpans {
  readonly #reader: TreeReader
  readonly #layout: TreeLayout
  readonly #changes: readonly TouchingChange[]
  readonly #reducing: boolean
  readonly #levels: Span[][] = []

  /** The spans of each level from 1 on, in the order of their keys; those to be split again with what they are made of. */
  static async find(
    reader: TreeReader,
    layout: TreeLayout,
    changes: readonly TouchingChange[],
    { reducing }: { readonly reducing: boolean },
  ): Promise<readonly (readonly Span[])[]> {
    const spans = new TouchedSpans(reader, layout, changes, reducing)
    if (changes.length <= FEW) await spans.#lookUp()
    else await spans.#descend()
    await spans.#readRuns()
    return spans.#levels
  }

  private constructor(reader: TreeReader, layout: TreeLayout, changes: readonly TouchingChange[], reducing: boolean) {
    this.#reader = reader
    this.#layout = layout
    this.#changes = changes
    this.#reducing = reducing
  }

  async #lookUp(): Promise<void> {
    const levels = Array.from({ length: this.#layout.levels }, (_, i) => i + 1)
    const nodes = await this.#reader.find(levels.flatMap((level) => this.#lookups(level)))
    const count = this.#changes.length
    for (const level of levels) {
      this.#levels[level] = this.#spansOf(level, nodes.slice((level - 1) * count, level * count))
    }
  }

  async #descend(): Promise<void> {
    const height = (await this.#reader.sentinels()).length
    for (let level = height + 1; level <= this.#layout.levels; level++) this.#levels[level] = this.#absent(level)
    let above = this.#levels[height + 1] ?? this.#absent(height + 1)
    const isPlain = !this.#reducing && this.#changes.every(({ kind, level }) => kind !== 'removed' || level === 0)
    for (let level = height; level > 0; level--) {
      above = isPlain
        ? await this.#spansBelow(level, above)
        : this.#spansOf(level, await this.#nodesBelow(level, above))
      this.#levels[level] = above
    }
  }

  #absent(level: number): Span[] {
    return [this.#span(level, undefined, 0, this.#changes.length)]
  }

  /** The spans of a level, given those of the level above, where no boundary goes: node by node, not change by change. */
  async #spansBelow(level: number, above: readonly Span[]): Promise<Span[]> {
    const guesses = await this.#reader.guessInOrder(level, this.#changes)
    const endOf = (i: number) => guesses[i + 1]?.first ?? this.#changes.length
    const unknown = guesses.flatMap(({ first, node }, i) => (node ? [] : [{ first, end: endOf(i) }]))
    const within = overlaps(unknown, above)
    await inTurns([...new Set(within.map(({ span }) => span))], (span) => this.#read(level, span))
    const spans: Span[] = []
    let next = 0
    for (const [i, { first, node }] of guesses.entries()) {
      if (node) this.#add(spans, level, node, first, endOf(i))
      else while ((within[next]?.first ?? endOf(i)) < endOf(i)) this.#addRead(spans, level, within[next++]!)
    }
    return spans
  }

  /** Adds the spans of some changes out of the run that they lie in. */
  #addRead(spans: Span[], level: number, { span: { run }, first, end }: Overlap): void {
    assert(run, 'A span of the level above was not read.')
    let item = 0
    for (let next = first; next < end; ) {
      const key = this.#changes[next]!.boundary
      while (item + 1 < run.items.length && compareBytes(run.items[item + 1]!.key, key) <= 0) item++
      const following = run.items[item + 1]
      const after = following ? Math.min(end, firstFrom(this.#changes, next, following.key)) : end
      this.#add(spans, level, run.items[item], next, after)
      next = after
    }
  }

  /** Adds a span, or to the last one where that is the same: a hint to a boundary that is gone parts what is one. */
  #add(spans: Span[], level: number, node: Item | undefined, first: number, end: number): void {
    const span = this.#span(level, node, first, end)
    const last = spans.at(-1)
    if (!last || compareBytes(last.start, span.start) < 0) {
      spans.push(span)
      return
    }
    last.end = end
    last.isCutAnew ||= span.isCutAnew
  }

  #span(level: number, node: Item | undefined, first: number, end: number): Span {
    const span: Span = { start: node?.key ?? SENTINEL, node, first, end, isCutAnew: false, run: undefined }
    for (let i = first; i < end && !span.isCutAnew; i++) span.isCutAnew = this.#needsCut(level, this.#changes[i]!, span)
    return span
  }

  /** For each change the node that it touches on this level, given the spans of the level above. */
  async #nodesBelow(level: number, spans: readonly Span[]): Promise<(Item | undefined)[]> {
    const nodes: (Item | undefined)[] = []
    // Where reductions are kept every run is needed anyway.
    const guesses = this.#reducing ? [] : await this.#reader.guess(this.#lookups(level))
    const unknown = spans.filter(({ first, end }) => this.#reducing || guesses.slice(first, end).includes('unknown'))
    await inTurns(unknown, (span) => this.#read(level, span))
    for (const span of spans) {
      if (span.run) this.#pick(level, span, span.run, nodes)
      else for (const guess of guesses.slice(span.first, span.end)) if (guess !== 'unknown') nodes.push(guess)
    }
    return nodes
  }

  /** Adds the node that each change of a span touches, out of a run that holds them all. */
  #pick(level: number, { first, end }: Span, { items }: Run, nodes: (Item | undefined)[]): void {
    let next = 0
    for (let i = first; i < end; i++) {
      const change = this.#changes[i]!
      const most = goesFrom(change, level) ? 0 : 1
      while (next < items.length && compareBytes(items[next]!.key, change.boundary) < most) next++
      nodes.push(items[next - 1])
    }
  }

  #lookups(level: number): Lookup[] {
    return this.#changes.map((change) => ({ level, key: change.boundary, isBefore: goesFrom(change, level) }))
  }

  #spansOf(level: number, nodes: readonly (Item | undefined)[]): Span[] {
    const spans: Span[] = []
    let span: Span | undefined
    for (const [i, change] of this.#changes.entries()) {
      const node = nodes[i]
      const start = node?.key ?? SENTINEL
      // Also true when the change before is the going of the very boundary that this one is found at.
      const sharesSpan = span && compareBytes(start, this.#changes[i - 1]!.boundary) <= 0
      if (!span || !sharesSpan) {
        span = { start, node, first: i, end: i, isCutAnew: false, run: undefined }
        spans.push(span)
      }
      span.end = i + 1
      span.isCutAnew ||= this.#needsCut(level, change, span)
    }
    return spans
  }

  #needsCut(level: number, { level: reach, kind }: TouchingChange, { start, node }: Span): boolean {
    const isItemBelow = reach >= level - 1
    // A level is there when the one below has more than its sentinel: it comes with the first such item…
    if (!node) return kind === 'inserted' && isItemBelow
    if (this.#reducing) return true
    if (kind === 'kept') return false
    // … and may go with the last one.
    return reach >= level || (kind === 'removed' && isItemBelow && start.length === 0)
  }

  async #readRuns(): Promise<void> {
    const missing = this.#levels.flatMap((spans, level) =>
      spans.filter((span) => span.isCutAnew && !span.run).map((span) => ({ level, span })),
    )
    const isWhole = ({ level, span }: MissingRun) => level === 1 && this.#isOneNode(span)
    await inTurns(stretchesOf(missing.filter(isWhole)), (spans) => this.#readRows(spans))
    await inTurns(
      missing.filter((each) => !isWhole(each)),
      ({ level, span }) => this.#read(level - 1, span),
    )
  }

  /** Whether it is just what its node stands for: then the node says how many rows there are, and where they end. */
  #isOneNode({ node, end }: Span): boolean {
    if (!node || !this.#reader.countsRows) return false
    return node.next === undefined || compareBytes(this.#changes[end - 1]!.boundary, node.next) < 0
  }

  /** Reads the rows of spans that lie side by side, and shares them out. */
  async #readRows(spans: readonly Span[]): Promise<void> {
    const rows = await this.#reader.range(0, spans[0]?.start, spans.at(-1)?.node?.next)
    let at = 0
    for (const span of spans) {
      const items = rows.slice(at, at + (span.node?.weight ?? 0))
      at += items.length
      span.run = { start: span.start, items: this.#layout.inOrder(items), end: span.node?.next }
      // Only the first one is a boundary: none of the others need be hashed to know that.
      for (let i = span.start.length === 0 ? 0 : 1; i < items.length; i++) {
        const item = items[i]!
        if (!this.#layout.isLong(item)) item.reach = 0
      }
    }
    assert(at === rows.length, 'A tree and its rows disagree: a node weighs something else than what it holds.')
  }

  /** Reads the items, of the level below, that a span is made of. */
  async #read(levelBelow: number, span: Span): Promise<void> {
    span.run = await this.#reader.run(levelBelow, span.start, this.#changes[span.end - 1]!.boundary)
  }
}

/** A span of a level, to be read. */
interface MissingRun {
  readonly level: number
  readonly span: Span
}

/** Those side by side together. */
function stretchesOf(missing: readonly MissingRun[]): Span[][] {
  const stretches: Span[][] = []
  let next: Buffer | undefined
  for (const { span } of missing) {
    if (next && span.start.equals(next)) stretches.at(-1)?.push(span)
    else stretches.push([span])
    next = span.node?.next
  }
  return stretches
}

/** Changes from one to another, exclusive, that lie in a span. */
interface Overlap {
  readonly span: Span
  readonly first: number
  readonly end: number
}

/** Which parts of the ranges lie in which spans. Both are in their order. */
function overlaps(
  ranges: readonly { readonly first: number; readonly end: number }[],
  spans: readonly Span[],
): Overlap[] {
  const found: Overlap[] = []
  let next = 0
  for (const { first, end } of ranges) {
    while (next < spans.length && spans[next]!.end <= first) next++
    for (let i = next; i < spans.length && spans[i]!.first < end; i++) {
      const span = spans[i]!
      found.push({ span, first: Math.max(first, span.first), end: Math.min(end, span.end) })
    }
  }
  return found
}

/** A boundary that goes joins its interval to the one before: that one is touched then. */
function goesFrom({ kind, level: reach }: TouchingChange, level: number): boolean {
  return kind === 'removed' && reach >= level
}
