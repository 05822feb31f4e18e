/** The ranges that a selector query reads, in order. */
import type { JsonValue } from '../../../encoding/json/json-value.ts'

/** Rows from one key (inclusive) up to another (exclusive). */
export interface FindRange {
  readonly from: Buffer
  readonly to: Buffer
  /** Rows up to this one were given already. */
  readonly after?: Buffer | undefined
  /** The same, as the store says it. */
  readonly resume?: Uint8Array | undefined
  /** Whether every document of it matches the selector. */
  readonly isExact: boolean
  /** What it begins and ends with, column by column; undefined from where on it is open. */
  readonly low: readonly (JsonValue | undefined)[]
  readonly high: readonly (JsonValue | undefined)[]
}

/** Ranges without overlaps. A list may be very long, so its ranges may be created when they are read. */
export interface RangeList {
  readonly length: number
  /** Whether every document of every range matches the selector. */
  readonly areExact: boolean
  /** A range by its ordinal. */
  at(ordinal: number): FindRange
}

export function rangeList(ranges: readonly FindRange[]): RangeList {
  return {
    length: ranges.length,
    areExact: ranges.every(({ isExact }) => isExact),
    at: (ordinal) => ranges[ordinal]!,
  }
}

export function reversedList(list: RangeList): RangeList {
  const { length, areExact } = list
  return { length, areExact, at: (ordinal) => list.at(length - 1 - ordinal) }
}

/** The part of the ranges after the row of a key, in the direction of reading. */
export function listBehind(list: RangeList, key: Buffer, reverse: boolean): RangeList {
  let first = 0
  for (let end = list.length; first < end; ) {
    const middle = (first + end) >> 1
    if (rangeBehind(list.at(middle), key, reverse)) end = middle
    else first = middle + 1
  }
  const head = first < list.length ? rangeBehind(list.at(first), key, reverse) : undefined
  if (!head) return rangeList([])
  return {
    length: list.length - first,
    areExact: list.areExact,
    at: (ordinal) => (ordinal === 0 ? head : list.at(first + ordinal)),
  }
}

/** The part of a range after the row of a key, in the direction of reading; undefined if it is empty. */
export function rangeBehind(range: FindRange, key: Buffer, reverse: boolean): FindRange | undefined {
  const behind = Buffer.concat([key, Buffer.of(0)])
  const rest = { ...range, after: undefined, resume: undefined }
  const left = reverse ? { ...rest, to: lesser(range.to, key) } : { ...rest, from: greater(range.from, behind) }
  if (Buffer.compare(left.from, left.to) >= 0) return undefined
  // Rows with keys that are too long to be ordered are skipped one by one.
  return left.from === behind || left.to === key ? { ...left, after: key } : left
}

function lesser(a: Buffer, b: Buffer): Buffer {
  return Buffer.compare(a, b) <= 0 ? a : b
}

function greater(a: Buffer, b: Buffer): Buffer {
  return Buffer.compare(a, b) >= 0 ? a : b
}

/** Reads the ranges of a list one after the other. What is left of a range can be put back. */
export class RangeCursor {
  readonly #list: RangeList
  #next = 0
  #rest: FindRange | undefined

  constructor(list: RangeList) {
    this.#list = list
  }

  get isAtEnd(): boolean {
    return !this.#rest && this.#next >= this.#list.length
  }

  /** Undefined at the end. */
  take(): FindRange | undefined {
    const range = this.#rest ?? (this.#next < this.#list.length ? this.#list.at(this.#next++) : undefined)
    this.#rest = undefined
    return range
  }

  /** It is taken next. Called at most once after each range that is taken. */
  putBack(rest: FindRange): void {
    this.#rest = rest
  }
}
