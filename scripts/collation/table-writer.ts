/**
 * Writes the collation table as columns of variable-length numbers, in the order `CollationTable` reads them.
 * Columns of differences are nearly constant, which is what makes the compressed table small.
 */
import assert from 'node:assert/strict'
import { attributesOf, pageShift } from '../../src/encoding/collation/collation-table.ts'
import { type CanonicalForms, decomposed } from './canonical-forms.ts'
import { type Range, rangesOf } from './derived-order.ts'
import { inexactCodePoints } from './exact-code-points.ts'
import { derivedCode, type PrimaryCode, type PrimaryLayout } from './primary-layout.ts'
import type { Element, Entry, RootTable } from './root-table.ts'

export function writeTable(table: RootTable, layout: PrimaryLayout, forms: CanonicalForms): Uint8Array {
  const writer = new ColumnWriter()
  const weights = new WeightNumbers(table, layout)
  const stored = table.entries.filter(({ codePoints }) => isDecomposed(codePoints))
  const singles = stored.filter(({ codePoints }) => codePoints.length === 1).sort(byFirstCodePoint)
  const contractions = stored.filter(({ codePoints }) => codePoints.length > 1).sort(byFirstCodePoint)

  writer.column([layout.firstDerivedCode, layout.unassignedLead])
  writeDerived(layout.derived)

  const marks = [...forms.combiningClasses].sort(([left], [right]) => left - right)
  writer.ascending(marks.map(([mark]) => mark))
  writer.column(marks.map(([, combiningClass]) => combiningClass))

  const inexact = rangesOf(inexactCodePoints(table.entries))
  writer.ascending(inexact.map(({ first }) => first))
  writer.column(inexact.map(({ first, last }) => last - first))

  writer.ascending(singles.map(({ codePoints }) => codePoints[0]!))
  writeElements(singles)
  writer.column(contractions.map(({ codePoints }) => codePoints.length))
  writer.differences(contractions.flatMap(({ codePoints }) => codePoints))
  writeElements(contractions)

  const decompositions = [...forms.decompositions].sort(([left], [right]) => left - right)
  writer.ascending(decompositions.map(([codePoint]) => codePoint))
  writer.column(decompositions.map(([, form]) => form.length))
  writer.differences(decompositions.flatMap(([, form]) => form))
  return writer.bytes()

  /** Ideographs of one page of the code space mostly ascend: each range is told from where the last of its page ended. */
  function writeDerived(ranges: Range[]): void {
    const pageEnds = new Map<number, number>()
    const skipped = ranges.map(({ first, last }) => {
      const page = first >>> pageShift
      const difference = first - (pageEnds.get(page) ?? page << pageShift)
      pageEnds.set(page, last + 1)
      return difference
    })
    writer.column(ranges.map(({ first }) => first >>> pageShift))
    writer.signed(skipped)
    writer.column(ranges.map(({ first, last }) => last - first))
  }

  function writeElements(entries: Entry[]): void {
    const elements = entries.flatMap((entry) => entry.elements)
    writer.column(entries.map((entry) => entry.elements.length))
    writer.differences(elements.map((element) => weights.primary(element).code))
    writer.column(elements.map((element) => weights.attributes(element)))
  }
}

/** Weights as small numbers: the rank among the weights of their level. */
export class WeightNumbers {
  readonly #layout: PrimaryLayout
  readonly #secondaries: Map<number, number>
  readonly #tertiaries: Map<number, number>

  constructor(table: RootTable, layout: PrimaryLayout) {
    const elements = table.entries.flatMap((entry) => entry.elements)
    this.#layout = layout
    // An accent is never 0: that number stands for the common weight, which letters have.
    this.#secondaries = numbered(
      1,
      elements.map((element) => (element.kind === 'accent' ? element.secondary : 0)).filter(Boolean),
    )
    this.#tertiaries = numbered(
      0,
      elements.map(({ tertiary }) => tertiary),
    )
    assert(this.#secondaries.size < 0x200 && this.#tertiaries.size <= 0x20)
  }

  tertiary(element: Element): number {
    return this.#tertiaries.get(element.tertiary)!
  }

  attributes(element: Element): number {
    const secondary = element.kind === 'accent' ? this.#secondaries.get(element.secondary)! : 0
    return attributesOf(secondary, this.tertiary(element), this.primary(element).length)
  }

  primary(element: Element): PrimaryCode {
    if (element.kind === 'accent') return { code: 0, length: 0 }
    if (element.kind === 'weighted') return this.#layout.listed.get(element.primary)!
    return derivedCode(this.#layout, element.codePoint)
  }
}

function numbered(first: number, weights: number[]): Map<number, number> {
  const distinct = [...new Set(weights)].sort((left, right) => left - right)
  return new Map(distinct.map((weight, i) => [weight, first + i]))
}

function isDecomposed(codePoints: number[]): boolean {
  return decomposed(...codePoints).join() === codePoints.join()
}

function byFirstCodePoint(left: Entry, right: Entry): number {
  return left.codePoints[0]! - right.codePoints[0]!
}

class ColumnWriter {
  readonly #bytes: number[] = []

  bytes(): Uint8Array {
    return Uint8Array.from(this.#bytes)
  }

  column(values: number[]): void {
    this.#number(values.length)
    for (const value of values) this.#number(value)
  }

  ascending(values: number[]): void {
    this.column(values.map((value, i) => value - (values[i - 1] ?? 0)))
  }

  differences(values: number[]): void {
    this.signed(values.map((value, i) => value - (values[i - 1] ?? 0)))
  }

  signed(values: number[]): void {
    this.column(values.map((value) => (value < 0 ? -2 * value - 1 : 2 * value)))
  }

  #number(value: number): void {
    assert(Number.isInteger(value) && value >= 0 && value < 2 ** 31)
    let rest = value
    while (rest >= 0x80) {
      this.#bytes.push((rest & 0x7f) | 0x80)
      rest >>>= 7
    }
    this.#bytes.push(rest)
  }
}
