/**
 * Sort keys right from the bytes of JSON text, for values that most keys of views are: texts without escapes, integers,
 * words, and arrays of them. What is not so plain is left to a parser.
 */
import type { ByteSink } from '../bytes/byte-sink.ts'
import { type TextCollation, writeSmallAscii } from './text-collation.ts'

/** The first byte of a value's sort key. */
export interface TypeTags {
  readonly null: number
  readonly false: number
  readonly true: number
  readonly negative: number
  readonly positive: number
  readonly text: number
  readonly array: number
  readonly object: number
}

export const NOT_PLAIN = -1

export class PlainKeyWriter {
  readonly #sink: ByteSink
  readonly #text: TextCollation
  readonly #tags: TypeTags
  #isExact = true

  constructor(sink: ByteSink, text: TextCollation, tags: TypeTags) {
    this.#sink = sink
    this.#text = text
    this.#tags = tags
  }

  /** Whether the key that was written last is exact. */
  get isExact(): boolean {
    return this.#isExact
  }

  /** Answers where the value that begins at `start` ends, or `NOT_PLAIN`: then what was written is to be taken back. */
  write(json: Buffer, start: number): number {
    this.#isExact = true
    return this.#write(json, start, 0)
  }

  #write(json: Buffer, at: number, depth: number): number {
    const first = json[at]
    if (first === QUOTE) return this.#writeText(json, at + 1)
    if (first === OPEN_ARRAY) return depth < DEEPEST_NESTING ? this.#writeArray(json, at + 1, depth + 1) : NOT_PLAIN
    if (first === MINUS || isDigit(first)) return this.#writeInteger(json, at)
    return this.#writeWord(json, at)
  }

  #writeText(json: Buffer, start: number): number {
    this.#sink.push(this.#tags.text)
    const smallEnd = writeSmallAscii(json, start, this.#sink)
    if (smallEnd >= 0) return smallEnd + 1
    let end = start
    for (; json[end] !== QUOTE; end++) if (end >= json.length || json[end] === BACKSLASH) return NOT_PLAIN
    if (!this.#text.write(json.toString('utf8', start, end), this.#sink)) this.#isExact = false
    return end + 1
  }

  #writeArray(json: Buffer, start: number, depth: number): number {
    this.#sink.push(this.#tags.array)
    let at = start
    if (json[at] !== CLOSE_ARRAY) {
      at = this.#write(json, at, depth)
      while (json[at] === COMMA) at = this.#write(json, at + 1, depth)
      // Also where an element is not plain: nothing lies before the first byte.
      if (json[at] !== CLOSE_ARRAY) return NOT_PLAIN
    }
    this.#sink.push(END_OF_ARRAY)
    return at + 1
  }

  /** More digits than a double holds, fractions and exponents are left to the parser. */
  #writeInteger(json: Buffer, start: number): number {
    const first = json[start] === MINUS ? start + 1 : start
    let at = first
    let magnitude = 0
    for (; isDigit(json[at]); at++) magnitude = magnitude * 10 + (json[at] ?? 0) - ZERO
    if (at === first || at - first > LONGEST_INTEGER || continuesNumber(json[at])) return NOT_PLAIN
    const value = first > start ? -magnitude : magnitude
    this.#sink.push(value < 0 ? this.#tags.negative : this.#tags.positive)
    writeMagnitude(value, this.#sink)
    return at
  }

  #writeWord(json: Buffer, at: number): number {
    for (const { name, bytes } of WORDS) {
      if (!startsWith(json, at, bytes)) continue
      this.#sink.push(this.#tags[name])
      return at + bytes.length
    }
    return NOT_PLAIN
  }
}

/** Where the value that begins at `start` ends, if there is one: at what cannot belong to it. */
export function endOfValue(json: Uint8Array, start: number): number {
  let depth = 0
  for (let at = start; at < json.length; at++) {
    const byte = json[at]
    if (byte === QUOTE) at = endOfText(json, at + 1)
    else if (byte === OPEN_ARRAY || byte === OPEN_OBJECT) depth++
    else if (byte === CLOSE_ARRAY || byte === CLOSE_OBJECT) depth--
    if (depth < 0 || (depth === 0 && byte === COMMA)) return at
  }
  return json.length
}

const DEEPEST_NESTING = 100
const LONGEST_INTEGER = 15
/** A longer one is left to what the system has. */
const SHORT_TEXT = 40
const END_OF_ARRAY = 0x00

const QUOTE = 0x22
const BACKSLASH = 0x5c
const COMMA = 0x2c
const MINUS = 0x2d
const ZERO = 0x30
const OPEN_ARRAY = 0x5b
const CLOSE_ARRAY = 0x5d
const OPEN_OBJECT = 0x7b
const CLOSE_OBJECT = 0x7d

const WORDS = (['null', 'true', 'false'] as const).map((name) => ({ name, bytes: Buffer.from(name) }))

function startsWith(json: Uint8Array, at: number, bytes: Uint8Array): boolean {
  for (let index = 0; index < bytes.length; index++) if (json[at + index] !== bytes[index]) return false
  return true
}

function isDigit(byte: number | undefined): boolean {
  return byte !== undefined && byte >= ZERO && byte <= ZERO + 9
}

/** A fraction or an exponent follows. */
function continuesNumber(byte: number | undefined): boolean {
  return byte === 0x2e || byte === 0x65 || byte === 0x45
}

function endOfText(json: Uint8Array, start: number): number {
  let at = start
  while (at < json.length && json[at] !== QUOTE) {
    if (at > start + SHORT_TEXT) return endOfLongText(json, at)
    at += json[at] === BACKSLASH ? 2 : 1
  }
  return at
}

/** From a place on that no backslash belongs to. */
function endOfLongText(json: Uint8Array, start: number): number {
  for (let at = json.indexOf(QUOTE, start); at >= 0; at = json.indexOf(QUOTE, at + 1)) {
    let backslashes = 0
    while (at - backslashes > start && json[at - 1 - backslashes] === BACKSLASH) backslashes++
    if (backslashes % 2 === 0) return at
  }
  return json.length
}

const longestNumber = 9

const double = new Float64Array(1)
const words = new Uint32Array(double.buffer)
const isLittleEndian = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1
const highWord = isLittleEndian ? 1 : 0
const lowWord = 1 - highWord

/**
 * Numbers as bytes in numeric order. The bits of a double, sign apart, are already in order; they go out seven to a byte, and
 * zeros at the end are dropped. So 1 takes two bytes and 2024 three, and no number's bytes are a prefix of another's.
 * Negative numbers, greatest first, have every bit inverted; which sign it is, the caller has to say.
 */
export function writeMagnitude(value: number, sink: ByteSink): void {
  // Not by `assert`, which costs more than all the rest.
  if (Number.isNaN(value)) throw new TypeError('Not a number is not a JSON value.')
  const inversion = value < 0 ? 0xff : 0
  double[0] = Math.abs(value)
  // The sign bit is zero now and leaves 63 bits: nine groups of seven.
  let high = (words[highWord]! << 1) | (words[lowWord]! >>> 31)
  let low = words[lowWord]! << 1
  sink.reserve(longestNumber)
  let more: boolean
  do {
    const group = (high >>> 24) & 0xfe
    high = (high << 7) | (low >>> 25)
    low <<= 7
    more = (high | low) !== 0
    sink.bytes[sink.length++] = (group | Number(more)) ^ inversion
  } while (more)
}
