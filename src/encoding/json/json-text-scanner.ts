/**
 * One pass over the bytes of a JSON text. Checks them strictly, drops white space, brings escapes to their shortest form,
 * and writes the Erlang term of the value beside its text. Digits of numbers stay as they were sent.
 */
import type { ByteArena } from '../bytes/byte-arena.ts'
import { TermWriter } from '../bytes/erlang-term.ts'
import {
  BACKSLASH,
  CLOSE_BRACE,
  CLOSE_BRACKET,
  COLON,
  isDigit,
  JsonCursor,
  JsonTextError,
  LETTER_E,
  LETTER_U,
  MINUS,
  OPEN_BRACE,
  OPEN_BRACKET,
  output,
  PLUS,
  POINT,
  QUOTE,
  SLASH,
  UNDERSCORE,
  ZERO,
} from './json-text-cursor.ts'
import { NameStack } from './json-text-names.ts'

/** Bounded, so that nothing sent can exhaust the stack or hold the processor. */
export const MAX_DEPTH = 1000
export const MAX_INTEGER_DIGITS = 10_000

/** A value apart that is shorter is copied: to keep the whole text for it would cost more. */
const SHORT_VALUE_BYTES = 4096

/** What the last scan made, beside `output`. One set serves all scanners, for a scan is never interrupted. */
const FRONT_BYTES = 64
const term = new TermWriter(64 * 1024, FRONT_BYTES)
const names = new NameStack()

/** The term of the last scan, where it lies until the next one. */
export const lastTerm = {
  get sizeBytes(): number {
    return term.length - FRONT_BYTES
  },

  /** The term between the first bytes of one buffer, 64 at most, and all of another; where it lies until the next scan. */
  between(before: Uint8Array, beforeBytes: number, after: Uint8Array): Uint8Array {
    const start = FRONT_BYTES - beforeBytes
    const end = term.length
    term.append(after, 0, after.length)
    term.length = end
    const { bytes } = term
    for (let i = 0; i < beforeBytes; i++) bytes[start + i] = before[i]!
    return bytes.subarray(start, end + after.length)
  },

  copy(): Buffer {
    return term.copy(FRONT_BYTES)
  },
}

/** What `scan` makes of texts while no term may grow beyond this: see `SinkFullError`. */
export function withLargestTerm<T>(mostBytes: number, scan: () => T): T {
  term.mostBytes = mostBytes
  try {
    return scan()
  } finally {
    term.mostBytes = Number.POSITIVE_INFINITY
  }
}

/** The string that it is, or the minified text of a value of another kind. */
export type ValueApart = string | Buffer

export class JsonScanner extends JsonCursor {
  /** Whether some object of the last scan has a member twice; both are then in its text and its term. */
  hasDuplicates = false
  /** Whether long values apart may be parts of the text itself. */
  isLent = false
  /** Where values apart are copied to; unless set, each has a memory of its own. */
  arena: ByteArena | undefined

  /** The next value, whatever it is. */
  value(): void {
    this.#begin()
    this.#value(1)
    this.isKeeping = false
  }

  /** The next value, a string, as such. */
  string(): string {
    this.#begin()
    if (this.next() !== QUOTE) throw this.unexpected()
    this.#string()
    this.isKeeping = false
    return term.bytes.toString('utf8', FRONT_BYTES + BINARY_HEADER_BYTES, term.length)
  }

  /**
   * The next value, an object, without some of its members: each whose name begins with an underscore and that `isApart`
   * claims is handed to `apart` instead.
   */
  objectWithout(isApart: (name: string) => boolean, apart: (name: string, value: ValueApart) => void): void {
    this.#begin()
    this.expect(OPEN_BRACE)
    term.tuple(1)
    const list = term.openList()
    const object = names.open()
    let kept = 0
    let leftOutLast = false
    let first = this.next()
    while (first !== CLOSE_BRACE) {
      const textStart = this.#startOfUnderscoreName()
      const termStart = term.length
      const nameStart = this.#name(first)
      const nameApart = textStart >= 0 ? underscoreName(nameStart, isApart) : undefined
      leftOutLast = nameApart !== undefined
      if (nameApart !== undefined) {
        apart(nameApart, this.#valueApart())
        term.length = termStart
        first = this.nextElement(CLOSE_BRACE)
        // The comma before it serves the next member.
        output.length = textStart
        output.skipTo(this.position)
      } else {
        this.#memberAfterName(object, nameStart, 1)
        kept++
        first = this.nextElement(CLOSE_BRACE)
      }
    }
    if (leftOutLast && kept > 0) output.length--
    this.position++
    names.close(object)
    term.closeList(list, kept)
    this.isKeeping = false
  }

  /** How long the text of the last scan is. */
  get textBytes(): number {
    return output.lengthTo(this.position)
  }

  /** A copy of the text of the last scan; to be taken before anything else is read. */
  copyText(arena?: ByteArena): Buffer {
    return output.copyTo(this.position, 0, arena)
  }

  #begin(): void {
    this.next()
    this.isKeeping = true
    this.hasDuplicates = false
    output.begin(this.text, this.view, this.position)
    term.clear()
    names.reset()
  }

  #value(depth: number): void {
    const byte = this.next()
    if (byte === QUOTE) this.#string()
    else if (byte === MINUS || isDigit(byte)) this.#number()
    else if (byte === OPEN_BRACE) this.#object(depth)
    else if (byte === OPEN_BRACKET) this.#array(depth)
    else this.#literal(byte)
  }

  #object(depth: number): void {
    this.#enter(depth)
    term.tuple(1)
    const list = term.openList()
    const object = names.open()
    let count = 0
    let first = this.next()
    while (first !== CLOSE_BRACE) {
      this.#memberAfterName(object, this.#name(first), depth)
      count++
      first = this.nextElement(CLOSE_BRACE)
    }
    this.position++
    names.close(object)
    term.closeList(list, count)
  }

  #array(depth: number): void {
    this.#enter(depth)
    const list = term.openList()
    let count = 0
    let allBytes = true
    let first = this.next()
    while (first !== CLOSE_BRACKET) {
      const start = term.length
      this.#value(depth + 1)
      allBytes &&= term.isByteSince(start)
      count++
      first = this.nextElement(CLOSE_BRACKET)
    }
    this.position++
    if (allBytes) term.closeByteList(list, count)
    else term.closeList(list, count)
  }

  #enter(depth: number): void {
    if (depth > MAX_DEPTH) throw new JsonTextError(`Nested deeper than ${MAX_DEPTH} levels`, this.position)
    this.position++
  }

  /** Opens the pair of a member and scans its name; where that begins in the term. */
  #name(first: number): number {
    if (first !== QUOTE) throw this.unexpected()
    term.tuple(2)
    const start = term.length + BINARY_HEADER_BYTES
    this.#string()
    return start
  }

  #memberAfterName(object: number, nameStart: number, depth: number): void {
    if (names.add(object, term.bytes, nameStart, term.length)) this.hasDuplicates = true
    this.expect(COLON)
    this.#value(depth + 1)
  }

  /** Where a name that may begin with an underscore will stand in the text, or -1: then it surely begins otherwise. */
  #startOfUnderscoreName(): number {
    const byte = this.byteAt(this.position + 1)
    if (byte !== UNDERSCORE && byte !== BACKSLASH) return -1
    output.keepTo(this.position)
    return output.length
  }

  /** A value that is not part of the term, so the limit on the term does not apply. Duplicates inside it are checked by its reader. */
  #valueApart(): ValueApart {
    const { mostBytes } = term
    term.mostBytes = Number.POSITIVE_INFINITY
    try {
      this.expect(COLON)
      return this.next() === QUOTE ? this.#stringApart() : this.#textApart()
    } finally {
      term.mostBytes = mostBytes
    }
  }

  #stringApart(): string {
    const start = term.length + BINARY_HEADER_BYTES
    this.#string()
    return term.bytes.toString('utf8', start, term.length)
  }

  #textApart(): Buffer {
    const hadDuplicates = this.hasDuplicates
    output.keepTo(this.position)
    const start = output.length
    this.#value(2)
    this.hasDuplicates = hadDuplicates
    const lent = this.isLent ? output.runTo(this.position, start) : undefined
    return lent && lent.length > SHORT_VALUE_BYTES ? lent : output.copyTo(this.position, start, this.arena)
  }

  #string(): void {
    const binary = term.openBinary()
    this.position = term.appendPlain(this.text, this.view, this.position + 1, this.end)
    if (this.byteAt(this.position) !== QUOTE) this.#restOfString()
    term.closeBinary(binary)
    this.position++
  }

  #restOfString(): void {
    let byte = this.byteAt(this.position)
    while (byte !== QUOTE) {
      if (byte !== BACKSLASH) throw this.unexpected()
      this.#escape()
      this.position = term.appendPlain(this.text, this.view, this.position, this.end)
      byte = this.byteAt(this.position)
    }
  }

  #escape(): void {
    const letter = this.byteAt(this.position + 1)
    if (letter === LETTER_U) {
      this.#unicodeEscape()
      return
    }
    const character = ESCAPED.get(letter)
    if (character === undefined) throw this.unexpected(this.position + 1)
    term.character(character)
    if (letter === SLASH) {
      output.keepTo(this.position)
      output.skipTo(this.position + 1)
    }
    this.position += 2
  }

  #unicodeEscape(): void {
    const start = this.position
    let codePoint = this.#hexadecimal(start + 2)
    this.position = start + 6
    if ((codePoint & 0xf800) === 0xd800) codePoint = this.#surrogate(codePoint)

    output.keepTo(start)
    output.skipTo(this.position)
    const termStart = term.length
    term.character(codePoint)
    const shortest = SHORTEST_ESCAPES[codePoint]
    if (shortest === undefined) output.put(term.bytes, termStart, term.length)
    else output.put(shortest, 0, shortest.length)
  }

  /** A pair is one character; a half alone has no UTF-8, so the replacement character stands for it. */
  #surrogate(half: number): number {
    const at = this.position
    if (half >= 0xdc00 || this.byteAt(at) !== BACKSLASH || this.byteAt(at + 1) !== LETTER_U) return 0xfffd
    const low = this.#hexadecimal(at + 2)
    if ((low & 0xfc00) !== 0xdc00) return 0xfffd
    this.position = at + 6
    return 0x10000 + ((half & 0x3ff) << 10) + (low & 0x3ff)
  }

  #hexadecimal(start: number): number {
    let value = 0
    for (let at = start; at < start + 4; at++) {
      const byte = this.byteAt(at)
      const letter = byte | 0x20
      if (isDigit(byte)) value = value * 16 + byte - ZERO
      else if (letter >= 0x61 && letter <= 0x66) value = value * 16 + letter - 0x57
      else throw this.unexpected(at)
    }
    return value
  }

  #number(): void {
    const start = this.position
    const negative = this.text[start] === MINUS
    const digitsStart = negative ? start + 1 : start
    let at = digitsStart
    let byte = this.byteAt(at)
    let magnitude = 0
    for (; isDigit(byte); byte = this.byteAt(++at)) magnitude = magnitude * 10 + byte - ZERO
    const digits = at - digitsStart
    if (digits === 0) throw this.unexpected(at)
    if (digits > 1 && this.text[digitsStart] === ZERO) throw this.unexpected(digitsStart + 1)
    this.position = at

    if (byte === POINT || (byte | 0x20) === LETTER_E) this.#float(start, magnitude, digits)
    else if (digits > EXACT_DIGITS) this.#longInteger(start, digits)
    else if (negative) this.#negativeInteger(start, magnitude)
    else term.integer(magnitude)
  }

  #negativeInteger(start: number, magnitude: number): void {
    if (magnitude === 0) {
      output.keepTo(start)
      output.skipTo(start + 1)
    }
    term.integer(0 - magnitude)
  }

  #longInteger(start: number, digits: number): void {
    if (digits > MAX_INTEGER_DIGITS)
      throw new JsonTextError(`An integer of more than ${MAX_INTEGER_DIGITS} digits`, start)
    term.bigInteger(BigInt(this.text.toString('latin1', start, this.position)))
  }

  /** From the point or the exponent on, after the integer part of that magnitude and number of digits. */
  #float(start: number, integerPart: number, integerDigits: number): void {
    let magnitude = integerPart
    let digits = integerDigits
    let at = this.position
    let byte = this.byteAt(at)
    if (byte === POINT) {
      byte = this.byteAt(++at)
      if (!isDigit(byte)) throw this.unexpected(at)
      for (; isDigit(byte); byte = this.byteAt(++at)) {
        magnitude = magnitude * 10 + byte - ZERO
        digits++
      }
    }
    const hasExponent = (byte | 0x20) === LETTER_E
    if (hasExponent) at = this.#endOfExponent(at + 1)
    this.position = at

    if (hasExponent || digits > EXACT_DIGITS) {
      this.#longFloat(start)
      return
    }
    // Both operands are exact, so their quotient is the double nearest to the text.
    const value = magnitude / POWERS_OF_TEN[digits - integerDigits]!
    term.float(this.text[start] === MINUS ? -value : value)
  }

  #longFloat(start: number): void {
    const value = Number(this.text.toString('latin1', start, this.position))
    if (!Number.isFinite(value)) throw new JsonTextError('A number beyond the range of doubles', start)
    term.float(value)
  }

  #endOfExponent(start: number): number {
    let at = start
    const sign = this.byteAt(at)
    if (sign === PLUS || sign === MINUS) at++
    if (!isDigit(this.byteAt(at))) throw this.unexpected(at)
    while (isDigit(this.byteAt(at))) at++
    return at
  }

  #literal(first: number): void {
    if (first === TRUE[0]) {
      this.#word(TRUE)
      term.boolean(true)
    } else if (first === FALSE[0]) {
      this.#word(FALSE)
      term.boolean(false)
    } else {
      this.#word(NULL)
      term.null()
    }
  }

  #word(word: readonly number[]): void {
    for (let index = 0; index < word.length; index++) {
      if (this.byteAt(this.position + index) !== word[index]) throw this.unexpected(this.position + index)
    }
    this.position += word.length
  }
}

const TRUE = bytesOf('true')
const FALSE = bytesOf('false')
const NULL = bytesOf('null')

/** Decimal digits that a double always holds exactly. */
const EXACT_DIGITS = 15
const POWERS_OF_TEN = Array.from({ length: EXACT_DIGITS + 1 }, (_, exponent) => 10 ** exponent)

const BINARY_HEADER_BYTES = 5

/** The letter after a backslash, and the character both stand for. */
const ESCAPED = new Map(
  Object.entries({ '"': '"', '\\': '\\', '/': '/', b: '\b', f: '\f', n: '\n', r: '\r', t: '\t' }).map(
    ([letter, character]) => [letter.charCodeAt(0), character.charCodeAt(0)],
  ),
)

/** The only characters that stay escaped, by code point. */
const SHORTEST_ESCAPES = Array.from({ length: 0x80 }, (_, codePoint) => {
  const quoted = JSON.stringify(String.fromCharCode(codePoint)).slice(1, -1)
  return quoted.length > 1 ? Buffer.from(quoted) : undefined
})

/** Decoding a name costs more than comparing it with the few that nearly every document has. */
const USUAL_NAMES = ['_id', '_rev', '_deleted', '_revisions', '_attachments'].map((name) => ({
  name,
  bytes: bytesOf(name),
}))

/** The name just written to the term, if it begins with an underscore and is claimed. */
function underscoreName(start: number, isApart: (name: string) => boolean): string | undefined {
  if (start === term.length || term.bytes[start] !== UNDERSCORE) return undefined
  const name = usualName(start) ?? term.bytes.toString('utf8', start, term.length)
  return isApart(name) ? name : undefined
}

function usualName(start: number): string | undefined {
  const { bytes, length } = term
  for (const usual of USUAL_NAMES) {
    if (usual.bytes.length !== length - start) continue
    if (usual.bytes.every((byte, index) => byte === bytes[start + index])) return usual.name
  }
  return undefined
}

function bytesOf(word: string): readonly number[] {
  return [...Buffer.from(word)]
}
