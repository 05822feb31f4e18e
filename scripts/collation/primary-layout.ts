/**
 * Gives every primary weight its code: one byte for printable ASCII, two for all else that the table lists, three for the
 * derived weights of Han and its like, four for what is not assigned. Memcmp over codes is the order of the weights, and no
 * code is a prefix of another.
 */
import assert from 'node:assert/strict'
import { derivedLength } from '../../src/encoding/collation/collation-table.ts'
import { derivedOrder, type Range } from './derived-order.ts'
import type { RootTable } from './root-table.ts'

export interface PrimaryCode {
  code: number
  length: number
}

export interface PrimaryLayout {
  /** The codes of the weights of the table. */
  listed: Map<number, PrimaryCode>
  /** Code points with derived weights, in the order of their codes, which are consecutive. */
  derived: Range[]
  firstDerivedCode: number
  /** Before the three bytes of a code point that has no other weight. */
  unassignedLead: number
}

/** Bytes below this one end the primary level of a sort key. */
const firstLead = 0x03
const firstDerivedPrimary = 0xfb00

export function layOutPrimaries(table: RootTable): PrimaryLayout {
  const weights = weightsInOrder(table)
  const ascii = new Set(weightsInOrder({ ...table, entries: table.entries.filter(isPrintableAscii) }))
  const codes = new CodeAllocator()
  const listed = new Map<number, PrimaryCode>()
  const place = (weight: number) => {
    listed.set(weight, codes.next(ascii.has(weight) ? 1 : 2))
  }

  for (const weight of weights) if (weight < firstDerivedPrimary) place(weight)
  const derived = derivedOrder()
  const firstDerivedCode = codes.next(derivedLength).code
  codes.skip(derived.reduce((count, { first, last }) => count + last - first + 1, 0) - 1)
  const unassignedLead = codes.next(1).code
  // U+FFFD and U+FFFF are above everything else.
  for (const weight of weights) if (weight > firstDerivedPrimary) place(weight)
  return { listed, derived, firstDerivedCode, unassignedLead }
}

export function derivedCode({ derived, firstDerivedCode }: PrimaryLayout, codePoint: number): PrimaryCode {
  let code = firstDerivedCode
  for (const { first, last } of derived) {
    if (codePoint >= first && codePoint <= last) return { code: code + codePoint - first, length: derivedLength }
    code += last - first + 1
  }
  assert.fail(`U+${codePoint.toString(16)} has no derived weight`)
}

function weightsInOrder(table: RootTable): number[] {
  const elements = table.entries.flatMap((entry) => entry.elements)
  const weights = elements.flatMap((element) => (element.kind === 'weighted' ? [element.primary] : []))
  return [...new Set(weights)].sort((left, right) => left - right)
}

function isPrintableAscii({ codePoints }: RootTable['entries'][number]): boolean {
  return /^[ -~]$/.test(String.fromCodePoint(...codePoints))
}

/** Hands out codes in ascending order. A lead byte serves codes of one length; trail bytes use all 256 values. */
class CodeAllocator {
  #last = firstLead - 1
  #length = 1

  next(length: number): PrimaryCode {
    const code = length === this.#length ? this.#last + 1 : (this.#lastLead() + 1) * 256 ** (length - 1)
    this.#length = length
    this.#advanceTo(code)
    return { code, length }
  }

  skip(count: number): void {
    this.#advanceTo(this.#last + count)
  }

  #advanceTo(code: number): void {
    this.#last = code
    assert(this.#lastLead() <= 0xff, 'the primary weights need more lead bytes than there are')
  }

  #lastLead(): number {
    return Math.floor(this.#last / 256 ** (this.#length - 1))
  }
}
