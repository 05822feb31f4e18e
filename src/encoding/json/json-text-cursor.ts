import { TextOutput } from './json-text-output.ts'

/** The text that the scan under way keeps. One serves all, for a scan is never interrupted. */
export const output = new TextOutput()

/**
 * A place in a JSON text: passes over white space and punctuation, and says what is wrong where. White space it passes is
 * left out of what is kept.
 */
export class JsonCursor {
  readonly text: Buffer
  protected readonly view: DataView
  position = 0
  /** Where the text ends, or where it is taken to end: whoever bounds a read sets it. */
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
}

export function isDigit(byte: number): boolean {
  return byte >= ZERO && byte <= 0x39
}

export const SPACE = 0x20
export const QUOTE = 0x22
export const PLUS = 0x2b
export const COMMA = 0x2c
export const MINUS = 0x2d
export const POINT = 0x2e
export const SLASH = 0x2f
export const ZERO = 0x30
export const COLON = 0x3a
export const OPEN_BRACKET = 0x5b
export const BACKSLASH = 0x5c
export const CLOSE_BRACKET = 0x5d
export const UNDERSCORE = 0x5f
export const LETTER_E = 0x65
export const LETTER_U = 0x75
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
