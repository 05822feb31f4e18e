/**
 * Sort keys of JSON values: bytes whose memcmp order is the order of view keys. Values that collate equal have equal keys,
 * and no key is a prefix of another, so a key may be followed by anything, such as a document id.
 */
import assert from 'node:assert/strict'
import { ByteSink } from '../bytes/byte-sink.ts'
import type { JsonValue } from '../json/json-value.ts'
import { cldrVersion, ucaVersion } from './collation-data.ts'
import { endOfValue, NOT_PLAIN, PlainKeyWriter, type TypeTags, writeMagnitude } from './plain-key-writer.ts'
import { TextCollation } from './text-collation.ts'

const encodingVersion = 1

/** Stored with every index: keys of another version do not compare with these, so such an index is rebuilt. */
export const collationVersion = `cldr-${cldrVersion}/uca-${ucaVersion}/encoding-${encodingVersion}`

/** Values nested deeper than this are refused: far above any real key, far below what the call stack holds. */
export const deepestNesting = 1000

/** `unicode` is the default order of views, `raw` that of views whose `options.collation` is `raw`. */
export type Collation = 'unicode' | 'raw'

/** null < false < true < numbers < text < arrays < objects; text in the order of the Unicode root collation. */
export function collationKey(value: JsonValue): Buffer {
  return unicodeEncoder.encode(value)
}

/** numbers < false < null < true < objects < arrays < text; text in the order of its UTF-8 bytes. */
export function rawCollationKey(value: JsonValue): Buffer {
  return rawEncoder.encode(value)
}

/**
 * Encodes key after key with one scratch buffer. `encode` gives one key; `append` writes several in a row, so that a caller
 * can copy them out at once. Not for use across an `await` by more than one caller.
 */
export class CollationEncoder {
  readonly #sink: ByteSink
  readonly #text = new TextCollation()
  readonly #isRaw: boolean
  readonly #tags: TypeTags
  readonly #plain: PlainKeyWriter | undefined
  #isExact = true

  /** The owner of the sink may write between the keys, and clears it. */
  constructor(collation: Collation = 'unicode', sink = new ByteSink()) {
    this.#sink = sink
    this.#isRaw = collation === 'raw'
    this.#tags = this.#isRaw ? rawTags : unicodeTags
    this.#plain = this.#isRaw ? undefined : new PlainKeyWriter(this.#sink, this.#text, unicodeTags)
  }

  /**
   * Whether every key since `clear` or `begin` is exact. Of different values that share a key at most one has an exact key: where all
   * keys are exact, equal keys are equal values. Some texts are called inexact though no other shares their key.
   */
  get exact(): boolean {
    return this.#isExact
  }

  /** How many bytes there are since `clear`. */
  get length(): number {
    return this.#sink.length
  }

  encode(value: JsonValue): Buffer {
    this.clear()
    this.append(value)
    return this.copy()
  }

  clear(): void {
    this.#sink.clear()
    this.begin()
  }

  /** Like `clear`, but what was written stays. */
  begin(): void {
    this.#isExact = true
  }

  append(value: JsonValue): void {
    this.#write(value, 0)
  }

  /**
   * Appends the value whose JSON text, without blanks, begins at `start`; answers where it ends. Most values are read right
   * from the bytes. Throws where there is none.
   */
  appendText(json: Buffer, start: number): number {
    const { length } = this.#sink
    const plainEnd = this.#plain?.write(json, start) ?? NOT_PLAIN
    if (plainEnd !== NOT_PLAIN) {
      if (!this.#plain?.isExact) this.#isExact = false
      return plainEnd
    }
    this.#sink.length = length
    const end = endOfValue(json, start)
    this.append(JSON.parse(json.toString('utf8', start, end)))
    return end
  }

  /** What is appended from here on are the elements of an array, until it is closed. */
  openArray(): void {
    this.#sink.push(this.#tags.array)
  }

  closeArray(): void {
    this.#sink.push(containerEnd)
  }

  /** Copies the bytes from `start` on to a place that has room for them. */
  copyTo(target: Uint8Array, at: number, start = 0): void {
    const { bytes, length } = this.#sink
    for (let from = start, to = at; from < length; from++, to++) target[to] = bytes[from]!
  }

  /** A copy of the bytes from `start` on. */
  copy(start = 0): Buffer {
    return this.#sink.copy(start)
  }

  #write(value: JsonValue, depth: number): void {
    if (typeof value === 'string') this.#writeText(value)
    else if (typeof value === 'number') this.#writeNumber(value)
    else if (value === null) this.#sink.push(this.#tags.null)
    else if (value === true) this.#sink.push(this.#tags.true)
    else if (value === false) this.#sink.push(this.#tags.false)
    else this.#writeContainer(value, depth + 1)
  }

  #writeText(text: string): void {
    this.#sink.push(this.#tags.text)
    if (this.#isRaw) writeRawText(text, this.#sink)
    else if (!this.#text.write(text, this.#sink)) this.#isExact = false
  }

  #writeNumber(value: number): void {
    this.#sink.push(value < 0 ? this.#tags.negative : this.#tags.positive)
    writeMagnitude(value, this.#sink)
  }

  #writeContainer(value: object & JsonValue, depth: number): void {
    if (depth > deepestNesting) throw new RangeError(`A key is nested deeper than ${deepestNesting} levels.`)
    if (isArray(value)) this.#writeArray(value, depth)
    else this.#writeObject(value, depth)
    this.#sink.push(containerEnd)
  }

  #writeArray(elements: readonly JsonValue[], depth: number): void {
    this.#sink.push(this.#tags.array)
    for (const element of elements) this.#write(element, depth)
  }

  #writeObject(members: { readonly [name: string]: JsonValue }, depth: number): void {
    this.#sink.push(this.#tags.object)
    for (const name of Object.keys(members)) {
      const member = members[name]
      assert(member !== undefined, 'A member of a key has no value.')
      this.#writeText(name)
      this.#write(member, depth)
    }
  }
}

/** Below every tag: an array or object that ends here sorts before a longer one. */
const containerEnd = 0x00

const unicodeTags: TypeTags = { null: 1, false: 2, true: 3, negative: 4, positive: 5, text: 6, array: 7, object: 8 }
const rawTags: TypeTags = { negative: 1, positive: 2, false: 3, null: 4, true: 5, object: 6, array: 7, text: 8 }

const unicodeEncoder = new CollationEncoder('unicode')
const rawEncoder = new CollationEncoder('raw')

/** `Array.isArray` does not narrow readonly arrays. */
function isArray(value: object & JsonValue): value is readonly JsonValue[] {
  return Array.isArray(value)
}

const endByte = 0x00
/** Stands before the two bytes that would otherwise be taken for the end or for an escape. */
const escapeByte = 0x01
const mostBytesPerUnit = 3

/**
 * Text as bytes in the order of its UTF-8 form, closed so that no text's bytes are a prefix of another's. A lone
 * surrogate keeps its number, as WTF-8 has it: different texts never share bytes.
 */
function writeRawText(text: string, sink: ByteSink): void {
  sink.reserve(mostBytesPerUnit * text.length + 1)
  const { bytes } = sink
  let at = sink.length
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i)
    if (unit <= escapeByte) {
      bytes[at++] = escapeByte
      bytes[at++] = escapeByte + unit
    } else if (unit < 0x80) {
      bytes[at++] = unit
    } else if (unit < 0x800) {
      bytes[at++] = 0xc0 | (unit >>> 6)
      bytes[at++] = continuation(unit)
    } else {
      const codePoint = text.codePointAt(i) ?? unit
      if (codePoint === unit) {
        bytes[at++] = 0xe0 | (unit >>> 12)
      } else {
        i++
        bytes[at++] = 0xf0 | (codePoint >>> 18)
        bytes[at++] = continuation(codePoint >>> 12)
      }
      bytes[at++] = continuation(codePoint >>> 6)
      bytes[at++] = continuation(codePoint)
    }
  }
  bytes[at++] = endByte
  sink.length = at
}

function continuation(bits: number): number {
  return 0x80 | (bits & 0x3f)
}
