/**
 * Compares values of documents with one value that is known beforehand, in the order of views; the field `_id` by its
 * bytes. Most values are compared where they lie, without making a sort key.
 */

import { isAscii } from 'node:buffer'
import { ByteSink } from '../encoding/bytes/byte-sink.ts'
import { CollationEncoder } from '../encoding/collation/collation-key.ts'
import { endOfValue } from '../encoding/collation/plain-key-writer.ts'
import type { JsonValue } from '../encoding/json/json-value.ts'
import { spend, WORK_A_COLLATED_BYTE, WORK_A_PARSED_VALUE, WORK_A_SORT_KEY, WORK_AN_ODD_BYTE } from './match-work.ts'
import { BACKSLASH, isTrueAt, numberAt, QUOTE, stringAt, typeAt, type ValueType } from './value-text.ts'

export type Order = 'collation' | 'bytes'

const TYPE_ORDER: Readonly<Record<ValueType, number>> = {
  null: 0,
  boolean: 1,
  number: 2,
  string: 3,
  array: 4,
  object: 5,
}

/** Shared by all: nothing is kept in it between two calls. */
const sink = new ByteSink()
const encoder = new CollationEncoder('unicode', sink)

/** The sort key of the value that begins here, in bytes that the next call overwrites. */
export function sortKeyAt(text: Buffer, at: number): ByteSink {
  const mayBeLong = text.length - at > LONG_BYTES
  spend(typeAt(text, at) === 'object' ? WORK_A_PARSED_VALUE : WORK_A_SORT_KEY)
  if (mayBeLong) payForLong(text, at)
  encoder.clear()
  encoder.appendText(text, at)
  if (!mayBeLong) spend(sink.length * WORK_A_COLLATED_BYTE)
  return sink
}

const LONG_BYTES = 512 * 1024

/** Before the key is made: that may take too long. */
function payForLong(text: Buffer, at: number): void {
  const end = endOfValue(text, at)
  const isPlain = end - at < LONG_BYTES || isAscii(text.subarray(at, end))
  spend((end - at) * (isPlain ? WORK_A_COLLATED_BYTE : WORK_AN_ODD_BYTE))
}

export class ComparedValue {
  readonly #type: ValueType
  readonly #number: number
  readonly #isTrue: boolean
  /** The JSON text of a string of printable ASCII characters that need no escape: no other one collates equal. */
  readonly #plainText: Buffer | undefined
  readonly #sortKey: Buffer
  readonly #idBytes: Buffer | undefined
  readonly #order: Order

  constructor(value: JsonValue, order: Order) {
    this.#order = order
    this.#type = typeAt(Buffer.from(JSON.stringify(value)), 0)
    this.#number = typeof value === 'number' ? value : 0
    this.#isTrue = value === true
    this.#plainText = typeof value === 'string' && isPlain(value) ? Buffer.from(`"${value}"`) : undefined
    this.#sortKey = encoder.encode(value)
    this.#idBytes = typeof value === 'string' ? Buffer.from(value) : undefined
  }

  /** Whether the value that begins here is equal. */
  equals(text: Buffer, at: number): boolean {
    if (this.#order === 'bytes') return this.compare(text, at) === 0
    const type = typeAt(text, at)
    if (type !== this.#type) return false
    if (type === 'null') return true
    if (type === 'boolean') return isTrueAt(text, at) === this.#isTrue
    if (type === 'number') return numberAt(text, at) === this.#number
    if (this.#plainText) {
      const verdict = equalsPlain(text, at, this.#plainText)
      if (verdict !== undefined) return verdict
    }
    return this.#compareKeys(text, at) === 0
  }

  /** Below zero where the value that begins here is before this one, above zero where it is after. */
  compare(text: Buffer, at: number): number {
    const type = typeAt(text, at)
    if (this.#order === 'bytes' && type === 'string') {
      return this.#idBytes ? Buffer.compare(Buffer.from(stringAt(text, at)), this.#idBytes) : 1
    }
    if (type !== this.#type) return TYPE_ORDER[type] - TYPE_ORDER[this.#type]
    if (type === 'null') return 0
    if (type === 'boolean') return Number(isTrueAt(text, at)) - Number(this.#isTrue)
    if (type === 'number') return numberAt(text, at) - this.#number
    return this.#compareKeys(text, at)
  }

  #compareKeys(text: Buffer, at: number): number {
    const { bytes, length } = sortKeyAt(text, at)
    const key = this.#sortKey
    const shared = Math.min(length, key.length)
    for (let i = 0; i < shared; i++) if (bytes[i] !== key[i]) return bytes[i]! - key[i]!
    return length - key.length
  }
}

/** Whether a string has only printable ASCII characters that need no escape: no other one of these collates equal. */
export function isPlain(value: string): boolean {
  for (let i = 0; i < value.length; i++) if (!isPlainByte(value.charCodeAt(i))) return false
  return true
}

/** The same of the string that begins here. */
export function isPlainAt(text: Buffer, start: number): boolean {
  let at = start + 1
  while (isPlainByte(text[at]!)) at++
  return text[at] === QUOTE
}

function isPlainByte(byte: number): boolean {
  return byte >= 0x20 && byte < 0x7f && byte !== QUOTE && byte !== BACKSLASH
}

/** Undefined where the string has other characters, of which some are ignored by collation. */
function equalsPlain(text: Buffer, start: number, plain: Buffer): boolean | undefined {
  let i = 0
  while (i < plain.length && text[start + i] === plain[i]) i++
  if (i === plain.length) return true
  for (let at = start + i; text[at] !== QUOTE || at === start; at++) if (!isPlainByte(text[at]!)) return undefined
  return false
}
