/**
 * Finds what a list of row changes touches on every level of a tree, and reads what must be read for it.
 *
 * A span is an interval of a level that changes fall into, or several of them where a boundary between them goes. Most
 * spans of a tree of counts need only their node: its weight moves by what the changes add. A span is cut anew, out of
 * the items it is made of, when a boundary comes or goes in it, and always where reductions are kept.
 *
 * The boundary at or before a key is found by a page of one row, read backwards. A few changes are looked up on all
 * levels at once: one round trip, and a second one for the spans to be cut anew, one in 64 changes. For many changes
 * that would be a look-up a change and level, though on the upper levels they meet in the same few nodes; so these go
 * from the top down, and where many changes share a span all nodes below it are read with one page. Nothing is kept in
 * memory between two lists: a cache would have to be bounded, and told of other writers, to save microseconds.
 */

import { type Item, SENTINEL } from './tree-item.ts'
import type { TreeLayout } from './tree-layout.ts'
import { type Interval, inTurns, type TreeReader } from './tree-reader.ts'

/** As many look-ups take about as long as reading the nodes of an interval. */
const FEW = 8

export interface TouchingChange {
  readonly boundary: Buffer
  /** The highest level that the boundary belongs to. */
  readonly level: number
  readonly kind: 'inserted' | 'removed' | 'kept'
}

export interface Span {
  readonly start: Buffer
  /** What the node at `start` weighs; undefined when the level is not there. */
  readonly weight: number | undefined
  /** The row changes that touch it: from this one to that one, exclusive. */
  readonly first: number
  end: number
  isCutAnew: boolean
  /** What the span is made of, where it was read. */
  interval: Interval | undefined
}

export class TouchedSpans {
  readonly #reader: TreeReader
  readonly #layout: TreeLayout
  readonly #changes: readonly TouchingChange[]
  readonly #reducing: boolean
  readonly #levels: Span[][] = []

  /** The spans of each level from 1 on, in the order of their keys; those to be cut anew with what they are made of. */
  static async find(
    reader: TreeReader,
    layout: TreeLayout,
    changes: readonly TouchingChange[],
    { reducing }: { readonly reducing: boolean },
  ): Promise<readonly (readonly Span[])[]> {
    const spans = new TouchedSpans(reader, layout, changes, reducing)
    if (changes.length <= FEW) await spans.#lookUp()
    else await spans.#descend()
    await spans.#readIntervals()
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
    const found = await Promise.all(
      levels.map((level) => Promise.all(this.#changes.map((change) => this.#boundaryBefore(level, change)))),
    )
    for (const level of levels) this.#levels[level] = this.#spansOf(level, found[level - 1]!)
  }

  async #descend(): Promise<void> {
    const sentinels = await this.#reader.sentinels()
    const height = sentinels.length
    for (let level = height + 1; level <= this.#layout.levels; level++) this.#levels[level] = this.#absent(level)
    let above = this.#levels[height + 1] ?? this.#absent(height + 1)
    for (let level = height; level > 0; level--) {
      const found = await inTurns(above, (span) => this.#boundariesIn(level, span))
      above = this.#spansOf(level, found.flat())
      this.#levels[level] = above
    }
  }

  #absent(level: number): Span[] {
    return this.#spansOf(level, new Array<undefined>(this.#changes.length).fill(undefined))
  }

  /** For each change that touches the span of the level above, the node it touches on this one. */
  async #boundariesIn(level: number, span: Span): Promise<(Item | undefined)[]> {
    const changes = this.#changes.slice(span.first, span.end)
    if (!this.#reducing && changes.length <= FEW) {
      return Promise.all(changes.map((change) => this.#boundaryBefore(level, change)))
    }
    span.interval = await this.#reader.interval(level, span.start, changes.at(-1)!.boundary)
    const { items } = span.interval
    let next = 0
    return changes.map((change) => {
      const isGoing = this.#isGoing(level, change)
      while (next < items.length && Buffer.compare(items[next]!.key, change.boundary) < (isGoing ? 0 : 1)) next++
      return items[next - 1]
    })
  }

  #boundaryBefore(level: number, change: TouchingChange): Promise<Item | undefined> {
    return this.#isGoing(level, change)
      ? this.#reader.before(level, change.boundary)
      : this.#reader.floor(level, change.boundary)
  }

  /** A boundary that goes joins its interval to the one before: that one is touched then. */
  #isGoing(level: number, change: TouchingChange): boolean {
    return change.kind === 'removed' && change.level >= level
  }

  #spansOf(level: number, nodes: readonly (Item | undefined)[]): Span[] {
    const spans: Span[] = []
    let span: Span | undefined
    for (const [i, change] of this.#changes.entries()) {
      const node = nodes[i]
      const start = node?.key ?? SENTINEL
      // Also true when the change before is the going of the very boundary that this one is found at.
      const sharesSpan = span && Buffer.compare(start, this.#changes[i - 1]!.boundary) <= 0
      if (!span || !sharesSpan) {
        span = { start, weight: node?.weight, first: i, end: i, isCutAnew: false, interval: undefined }
        spans.push(span)
      }
      span.end = i + 1
      span.isCutAnew ||= this.#needsCut(level, change, span)
    }
    return spans
  }

  #needsCut(level: number, { level: reach, kind }: TouchingChange, { start, weight }: Span): boolean {
    const isItemBelow = reach >= level - 1
    // A level is there when the one below has more than its sentinel: it comes with the first such item…
    if (weight === undefined) return kind === 'inserted' && isItemBelow
    if (this.#reducing) return true
    if (kind === 'kept') return false
    // … and may go with the last one.
    return reach >= level || (kind === 'removed' && isItemBelow && start.length === 0)
  }

  async #readIntervals(): Promise<void> {
    const missing = this.#levels.flatMap((spans, level) =>
      spans.filter((span) => span.isCutAnew && !span.interval).map((span) => ({ level, span })),
    )
    await inTurns(missing, async ({ level, span }) => {
      span.interval = await this.#reader.interval(level - 1, span.start, this.#changes[span.end - 1]!.boundary)
    })
  }
}
