/**
 * Text as bytes in the order of the Unicode root collation (CLDR, tertiary strength, punctuation not ignored).
 *
 * A key is the primary weights, then the accents (secondary), then case and variants (tertiary) of the whole text. Most
 * letters have the common weight there, so these levels hold only the exceptions, each with the number of common weights
 * before it. The byte that ends a level determines what follows:
 *
 *     primaries 00                                 neither accents nor capitals
 *     primaries 01 tertiaries 00                   no accents
 *     primaries 02 secondaries 00                  no capitals
 *     primaries 02 secondaries 01 tertiaries 00
 *
 * An ending is below every weight of its level, and a level without exceptions below one that has some: memcmp is the order.
 * No key is a prefix of another, so anything may follow one.
 */
import { ByteSink } from '../bytes/byte-sink.ts'
import { asciiPrimaries, capitalTertiary } from './collation-data.ts'
import { runOf, runsOf } from './collation-elements.ts'
import { CollationTable, primaryLengthOf, secondaryOf, tertiaryOf } from './collation-table.ts'

const plainEnd = 0x00
const tertiariesFollow = 0x01
const secondariesFollow = 0x02

const longestCode = 4

/** The space that is reserved at once for a text of unknown length. */
const longestSmallText = 200

/** Weights of a level start here; below it, a byte less for each common weight that precedes the next exception. */
const firstSecondaryByte = 0x42
const longestSecondaryRun = 0x40
const firstTertiaryByte = 0xe0
const longestTertiaryRun = 0xdf

/** Writes texts into a sink. Keeps scratch space between texts: one writer serves one encoder. */
export class TextCollation {
  readonly #secondaries = new WeightLevel(firstSecondaryByte, longestSecondaryRun)
  readonly #tertiaries = new WeightLevel(firstTertiaryByte, longestTertiaryRun)

  /** Answers whether the key is exact: of two different texts with one key, at most one is. */
  write(text: string, sink: ByteSink): boolean {
    return writeAscii(text, sink) || this.#writeAny(text, sink)
  }

  #writeAny(text: string, sink: ByteSink): boolean {
    const table = rootTable()
    this.#secondaries.clear()
    this.#tertiaries.clear()
    let isExact = true
    let codePoint = text.codePointAt(0) ?? 0
    for (let at = 0; at < text.length; ) {
      at += sizeOf(codePoint)
      let next = text.codePointAt(at)
      if (next === undefined || !table.joinsPrevious(next)) {
        isExact &&= table.isExact(codePoint)
        this.#addRun(table, runOf(table, codePoint), sink)
      } else {
        const joined = [codePoint]
        for (; next !== undefined && table.joinsPrevious(next); next = text.codePointAt(at)) {
          joined.push(next)
          at += sizeOf(next)
        }
        isExact = false
        for (const run of runsOf(table, joined)) this.#addRun(table, run, sink)
      }
      codePoint = next ?? 0
    }
    this.#endPrimaries(sink)
    return isExact
  }

  #addRun(table: CollationTable, run: number, sink: ByteSink): void {
    const { runs } = table
    const count = runs[run]!
    sink.reserve(longestCode * count)
    const { bytes } = sink
    const end = run + 2 * count
    for (let at = run + 1; at < end; at += 2) {
      const code = runs[at]!
      const attributes = runs[at + 1]!
      for (let shift = 8 * primaryLengthOf(attributes) - 8; shift >= 0; shift -= 8)
        bytes[sink.length++] = code >>> shift
      this.#secondaries.add(secondaryOf(attributes))
      this.#tertiaries.add(tertiaryOf(attributes))
    }
  }

  #endPrimaries(sink: ByteSink): void {
    const tertiariesOrEnd = this.#tertiaries.isCommon ? plainEnd : tertiariesFollow
    if (!this.#secondaries.isCommon) {
      sink.push(secondariesFollow)
      sink.pushAll(this.#secondaries.sink)
    }
    sink.push(tertiariesOrEnd)
    if (this.#tertiaries.isCommon) return
    sink.pushAll(this.#tertiaries.sink)
    sink.push(plainEnd)
  }
}

/** One level of weights, of which 0 is the common and the least one. Common weights at the end are not written. */
class WeightLevel {
  readonly sink = new ByteSink()
  readonly #firstByte: number
  readonly #longestRun: number
  #commonRun = 0

  constructor(firstByte: number, longestRun: number) {
    this.#firstByte = firstByte
    this.#longestRun = longestRun
  }

  get isCommon(): boolean {
    return this.sink.length === 0
  }

  clear(): void {
    this.sink.clear()
    this.#commonRun = 0
  }

  add(weight: number): void {
    if (weight === 0) this.#commonRun++
    else this.#addException(weight)
  }

  /** What ends a run of common weights is greater than they are: the longer the run, the less the key. */
  #addException(weight: number): void {
    for (; this.#commonRun > 0; this.#commonRun -= this.#longestRun) {
      this.sink.push(this.#firstByte - Math.min(this.#commonRun, this.#longestRun))
    }
    this.#commonRun = 0
    const byte = this.#firstByte + weight - 1
    this.sink.push(Math.min(byte, 0xff))
    if (byte >= 0xff) this.sink.push(byte - 0xff)
  }
}

let loadedTable: CollationTable | undefined

/** Read on first need: a process that meets ASCII only never pays for it. */
function rootTable(): CollationTable {
  loadedTable ??= new CollationTable()
  return loadedTable
}

/** The primary byte of each printable ASCII character, 0 for control characters. */
const asciiPrimary = new Uint8Array(0x80)
asciiPrimary.set(Buffer.from(asciiPrimaries, 'base64'), 0x20)

const quote = 0x22

/** The same where a character needs no second look, 0 for all other bytes: capitals, quotes, escapes, what is not ASCII. */
const smallPrimary = new Uint8Array(0x100)
smallPrimary.set(asciiPrimary)
for (const character of '"\\ABCDEFGHIJKLMNOPQRSTUVWXYZ') smallPrimary[character.charCodeAt(0)] = 0

const capitalByte = firstTertiaryByte + capitalTertiary - 1

/** Writes nothing and answers false where the text is not printable ASCII. */
function writeAscii(text: string, sink: ByteSink): boolean {
  const { length } = text
  // At most two bytes a character, one of each level, and the ends of two levels.
  sink.reserve(2 * length + 2)
  const { bytes } = sink
  let end = sink.length
  let hasCapitals = false
  for (let at = 0; at < length; at++) {
    const character = text.charCodeAt(at)
    const primary = character < 0x80 ? asciiPrimary[character]! : 0
    if (primary === 0) return false
    bytes[end++] = primary
    if (isCapital(character)) hasCapitals = true
  }
  sink.length = hasCapitals ? writeCapitals(text, bytes, end) : end
  bytes[sink.length++] = plainEnd
  return true
}

/**
 * The same for bytes of a JSON text, from behind its opening quote to the closing one, whose place is the answer; -1 where it
 * has anything but small ASCII, or much of it. Then nothing was written.
 */
export function writeSmallAscii(json: Uint8Array, start: number, sink: ByteSink): number {
  sink.reserve(longestSmallText + 1)
  const { bytes } = sink
  let { length } = sink
  for (let at = start; at <= start + longestSmallText; at++) {
    const character = json[at]!
    const primary = smallPrimary[character]
    if (!primary) {
      if (character !== quote) return -1
      bytes[length] = plainEnd
      sink.length = length + 1
      return at
    }
    bytes[length++] = primary
  }
  return -1
}

/** The tertiary level of an ASCII text. The same bytes that `WeightLevel` writes, without its bookkeeping. */
function writeCapitals(text: string, bytes: Uint8Array, start: number): number {
  let end = start
  bytes[end++] = tertiariesFollow
  let afterLast = 0
  for (let at = 0; at < text.length; at++) {
    if (!isCapital(text.charCodeAt(at))) continue
    for (let run = at - afterLast; run > 0; run -= longestTertiaryRun) {
      bytes[end++] = firstTertiaryByte - Math.min(run, longestTertiaryRun)
    }
    bytes[end++] = capitalByte
    afterLast = at + 1
  }
  return end
}

function isCapital(character: number): boolean {
  return character >= 0x41 && character <= 0x5a
}

function sizeOf(codePoint: number): number {
  return codePoint > 0xffff ? 2 : 1
}
