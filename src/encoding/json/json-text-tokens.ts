/**
 * The tokens of a JSON text: white space, punctuation, strings, numbers and literals. Checks them strictly, brings escapes to
 * their shortest form and writes the Erlang term of each value. Digits of numbers stay as they were sent.
 */
import { output, term } from './json-text-output.ts'

/** Bounded, so that no number can hold the processor. */
export const MAX_INTEGER_DIGITS = 10_000

/** A place in a JSON text. White space that it passes is left out of what is kept. */
export class JsonTokens {
  readonly text: Buffer
  protected readonly view: DataView
  position = 0
  /** The end of the text, or of the part that a bounded read may use. */
  end: number
  /** Whether a scan is under way, whose text is kept; between scans the space is another reader's. */
  protected isKeeping = false

  constructor(text: Buffer) {
    this.text = text
    this.view = new DataView(text.buffer, text.byteOffset, text.byteLength)
    this.end = text.length
  }

  /** The first byte of what comes after white space; 0 at the end, where nothing valid begins with 0. */
  next(): number {
    const byte = this.byteAt(this.position)
    return byte > SPACE ? byte : this.#skipSpace()
  }

  /** Takes the punctuation that must come next. */
  expect(punctuation: number): void {
    if (this.next() !== punctuation) throw this.unexpected()
    this.position++
  }

  /** Goes on to the next element or member; what it begins with, or `close` when there is none. */
  nextElement(close: number): number {
    const byte = this.next()
    if (byte === close) return close
    if (byte !== COMMA) throw this.unexpected()
    this.position++
    const first = this.next()
    if (first === close) throw this.unexpected()
    return first
  }

  unexpected(at = this.position): JsonTextError {
    if (at >= this.end) return new JsonTextError('The text ends too early', this.end)
    return new JsonTextError(`Unexpected byte 0x${this.text[at]!.toString(16).padStart(2, '0')}`, at)
  }

  /** Lets go of the text, which the scratch space would otherwise hold until the next scan. */
  release(): void {
    output.begin(NOTHING, NOTHING_VIEW, 0)
  }

  protected byteAt(position: number): number {
    return position < this.end ? this.text[position]! : 0
  }

  #skipSpace(): number {
    const start = this.position
    let at = start
    let byte = this.byteAt(at)
    while (byte === SPACE || byte === 0x0a || byte === 0x0d || byte === 0x09) byte = this.byteAt(++at)
    this.position = at
    if (at > start && this.isKeeping) {
      output.keepTo(start)
      output.skipTo(at)
    }
    return byte
  }

  /** The string that begins here. */
  protected scanString(): void {
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

  /** The number that begins here. */
  protected scanNumber(): void {
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

  /** The literal that begins here, with this byte. */
  protected scanLiteral(first: number): void {
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

export function isDigit(byte: number): boolean {
  return byte >= ZERO && byte <= 0x39
}

const SPACE = 0x20
export const QUOTE = 0x22
const PLUS = 0x2b
const COMMA = 0x2c
export const MINUS = 0x2d
const POINT = 0x2e
const SLASH = 0x2f
const ZERO = 0x30
export const COLON = 0x3a
export const OPEN_BRACKET = 0x5b
export const BACKSLASH = 0x5c
export const CLOSE_BRACKET = 0x5d
export const UNDERSCORE = 0x5f
const LETTER_E = 0x65
const LETTER_U = 0x75
export const OPEN_BRACE = 0x7b
export const CLOSE_BRACE = 0x7d

const NOTHING = Buffer.alloc(0)
const NOTHING_VIEW = new DataView(new ArrayBuffer(0))

/** What was given as JSON is not JSON, or is more than is taken: too deep, a number out of range. `at` counts bytes. */
export class JsonTextError extends Error {
  override readonly name = 'JsonTextError'
  readonly at: number

  constructor(what: string, at: number) {
    super(`${what} at byte ${at}`)
    this.at = at
  }
}

const TRUE = bytesOf('true')
const FALSE = bytesOf('false')
const NULL = bytesOf('null')

/** Decimal digits that a double always holds exactly. */
const EXACT_DIGITS = 15
const POWERS_OF_TEN = Array.from({ length: EXACT_DIGITS + 1 }, (_, exponent) => 10 ** exponent)

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

export function bytesOf(word: string): readonly number[] {
  return [...Buffer.from(word)]
}
