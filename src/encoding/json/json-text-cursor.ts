/** A place in a JSON text that is being scanned, and the text that the scan keeps of it. */
import type { ByteArena } from '../bytes/byte-arena.ts'
import { ByteSink } from '../bytes/byte-sink.ts'
import { copyBytes } from '../bytes/short-bytes.ts'

/**
 * The text a scan keeps. Most of it is the source unchanged, so it is copied in runs: a run goes on until something has
 * to be left out or replaced, and a compact document is one or two copies.
 */
export class TextOutput extends ByteSink {
  #source: Buffer
  #sourceView: DataView
  #runStart = 0

  constructor() {
    super(INITIAL_SIZE_BYTES)
    this.#source = this.bytes
    this.#sourceView = this.view
  }

  /** Starts over, with a run that begins at `position` of `source`. */
  begin(source: Buffer, sourceView: DataView, position: number): void {
    this.clear()
    this.#source = source
    this.#sourceView = sourceView
    this.#runStart = position
  }

  /** Takes over the source up to `position`; the next run begins there. */
  keepTo(position: number): void {
    const start = this.#runStart
    this.#runStart = position
    const count = position - start
    if (count === 0) return
    this.#reserve(count)
    if (count > SHORT_COPY_BYTES) this.#source.copy(this.bytes, this.length, start, position)
    else this.#copyShort(start, position)
    this.length += count
  }

  /** Leaves out the source from where `keepTo` stopped up to `position`. */
  skipTo(position: number): void {
    this.#runStart = position
  }

  /** Text that the source does not have, after `keepTo`. */
  put(text: Buffer, start: number, end: number): void {
    this.#reserve(end - start)
    for (let from = start; from < end; from++) this.bytes[this.length++] = text[from]!
  }

  /** How much was kept, the source up to `position` included. */
  lengthTo(position: number): number {
    return this.length + position - this.#runStart
  }

  /** A copy of what was kept since `start`, the source up to `position` included; in the arena, if there is one. */
  copyTo(position: number, start = 0, arena?: ByteArena): Buffer {
    const kept = this.length - start
    const bytes = kept + position - this.#runStart
    const copy = arena ? arena.allocate(bytes) : Buffer.allocUnsafe(bytes)
    copyBytes(copy, 0, this.bytes, start, this.length)
    copyBytes(copy, kept, this.#source, this.#runStart, position)
    return copy
  }

  /** The same as a part of the source; undefined where something was left out or replaced since `start`. */
  runTo(position: number, start: number): Buffer | undefined {
    return this.length === start ? this.#source.subarray(this.#runStart, position) : undefined
  }

  /** Four bytes at a time, for indented text is nothing but short runs. */
  #copyShort(start: number, end: number): void {
    let from = start
    let to = this.length
    for (; from + 4 <= end; from += 4, to += 4) this.view.setInt32(to, this.#sourceView.getInt32(from))
    for (; from < end; from++, to++) this.bytes[to] = this.#source[from]!
  }

  #reserve(count: number): void {
    if (this.length + count > this.bytes.length) this.grow(count)
  }
}

const INITIAL_SIZE_BYTES = 64 * 1024
/** Up to here a loop beats the call into the engine's own copy. */
const SHORT_COPY_BYTES = 40

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
