/**
 * Reads multipart bodies as they come in: one part after the other, each part's content in pieces, and never more in
 * memory than a piece and a header. The source is asked for more only when the reader of a part wants more.
 */
import assert from 'node:assert'
import { isUtf8 } from 'node:buffer'
import { badRequest } from '../document/request-error.ts'

export interface Part {
  /** By lower-case names; the values of a repeated one are joined by commas. */
  readonly headers: ReadonlyMap<string, string>
  /** To be read once, and before the next part is asked for; what is left unread is skipped. */
  readonly body: AsyncIterable<Buffer>
}

export interface MultipartLimits {
  /** Of the header block of a part. */
  readonly headerBytes: number
  readonly parts: number
}

const DEFAULT_LIMITS: MultipartLimits = { headerBytes: 16 * 1024, parts: 10_000 }

/** The parts of a body, without what stands before the first boundary and after the closing one. */
export async function* readParts(
  source: AsyncIterable<Buffer>,
  boundary: string,
  limits: MultipartLimits = DEFAULT_LIMITS,
): AsyncGenerator<Part, void, undefined> {
  const reader = new PartReader(source, boundary)
  try {
    await reader.skipContent()
    for (let count = 1; !reader.isAtEnd; count++) {
      if (count > limits.parts) throw badRequest(`The multipart body has more than ${limits.parts} parts.`)
      const headers = parseHeaders(await reader.headerBlock(limits.headerBytes))
      yield { headers, body: reader.content() }
      await reader.skipContent()
    }
    await reader.skipRest()
  } finally {
    await reader.release()
  }
}

/** The boundary that a Content-Type names. */
export function boundaryOf(contentType: string): string | undefined {
  const boundary = headerParameter(contentType, 'boundary')
  return boundary !== undefined && /^[^\r\n]{1,200}$/.test(boundary) ? boundary : undefined
}

/** The file name of a Content-Disposition; the form that can say every character counts more than the plain one. */
export function dispositionFilename(header: string): string | undefined {
  const extended = headerParameter(header, 'filename*')
  return (extended === undefined ? undefined : extendedValue(extended)) ?? headerParameter(header, 'filename')
}

/**
 * All that the file name of a Content-Disposition may be. CouchDB does not escape quotes in it: then it
 * reaches to the last one.
 */
export function possibleFilenames(header: string): readonly string[] {
  const name = dispositionFilename(header)
  if (name === undefined) return []
  const start = header.indexOf('filename="') + 'filename="'.length
  const end = header.lastIndexOf('"')
  return end > start ? [name, header.slice(start, end)] : [name]
}

const PARAMETER = /;\s*([^\s=;"]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;"]*))/gs

/** A parameter of a header value such as `form-data; name="x"`, by its lower-case name. */
export function headerParameter(header: string, name: string): string | undefined {
  for (const [, key = '', quoted, plain] of header.matchAll(PARAMETER)) {
    if (key.toLowerCase() !== name) continue
    // Other backslashes are literal: CouchDB sends names with them unescaped.
    return quoted === undefined ? plain : quoted.replace(/\\(["\\])/g, '$1')
  }
  return undefined
}

/** `UTF-8''a%20name`; one that is malformed does not count. */
function extendedValue(value: string): string | undefined {
  const [, charset = '', escaped] = /^([^']*)'[^']*'(.*)$/.exec(value) ?? []
  if (escaped === undefined || charset.toLowerCase() !== 'utf-8') return undefined
  try {
    return decodeURIComponent(escaped)
  } catch {
    return undefined
  }
}

const CRLF = Buffer.from('\r\n')
const END_OF_HEADERS = Buffer.from('\r\n\r\n')
const CARRIAGE_RETURN = 0x0d
const LINE_FEED = 0x0a
const DASH = 0x2d
const BLANK = 0x20
const TAB = 0x09
/** Blanks may stand between a boundary and the end of its line, but a line of nothing else is content. */
const PADDING_LIMIT_BYTES = 256

/** What a boundary-like place in the content is. */
type Delimiter = { kind: 'none' } | { kind: 'incomplete' } | { kind: 'part' | 'close'; length: number }

class PartReader {
  readonly #chunks: AsyncIterator<Buffer>
  readonly #delimiter: Buffer
  /** Received and not yet looked at. Begins with a line end, since the first boundary may come without one. */
  #rest: Buffer = CRLF
  #isExhausted = false
  /** Counts the delimiters, so that a body of a part that is over is not taken for that of the next. */
  #partNumber = 0
  #isInContent = true
  /** Whether the empty line that ends the headers is still there. */
  #isBeforeContent = false
  #isAtEnd = false

  constructor(source: AsyncIterable<Buffer>, boundary: string) {
    this.#chunks = source[Symbol.asyncIterator]()
    this.#delimiter = Buffer.from(`\r\n--${boundary}`)
  }

  /** Whether the closing boundary was met. */
  get isAtEnd(): boolean {
    return this.#isAtEnd
  }

  /** The lines between a boundary and the empty line. */
  async headerBlock(limitBytes: number): Promise<Buffer> {
    assert(!this.#isInContent && !this.#isAtEnd)
    let searched = 0
    for (;;) {
      const end = this.#rest.indexOf(END_OF_HEADERS, searched)
      if (end > limitBytes || (end < 0 && this.#rest.length > limitBytes + END_OF_HEADERS.length)) {
        throw badRequest(`The headers of a part of the multipart body are longer than ${limitBytes} bytes.`)
      }
      if (end >= 0) {
        const block = this.#take(end)
        this.#take(CRLF.length)
        this.#isInContent = true
        this.#isBeforeContent = true
        return block
      }
      searched = Math.max(0, this.#rest.length - END_OF_HEADERS.length + 1)
      await this.#receive()
    }
  }

  /** The content of the current part. */
  content(): AsyncIterable<Buffer> {
    return this.#contentOf(this.#partNumber)
  }

  async skipContent(): Promise<void> {
    while (this.#isInContent) await this.#nextPiece()
  }

  /** What follows the closing boundary is read too: the connection is used again. */
  async skipRest(): Promise<void> {
    while (!this.#isExhausted) {
      const { done } = await this.#chunks.next()
      if (done === true) this.#isExhausted = true
    }
  }

  async release(): Promise<void> {
    if (!this.#isExhausted) await this.#chunks.return?.()
  }

  async *#contentOf(part: number): AsyncGenerator<Buffer, void, undefined> {
    for (;;) {
      assert(part === this.#partNumber, 'A part must be read before the next one is asked for.')
      const piece = await this.#nextPiece()
      if (piece === undefined) return
      if (piece.length > 0) yield piece
    }
  }

  /** The next piece of the content, or nothing when its delimiter was met. */
  async #nextPiece(): Promise<Buffer | undefined> {
    if (!this.#isInContent) return undefined
    if (this.#isBeforeContent) await this.#passEmptyLine()
    let start = 0
    for (;;) {
      const found = this.#rest.indexOf(this.#delimiter, start)
      if (found < 0) break
      const delimiter = this.#delimiterAt(found)
      if (delimiter.kind === 'none') {
        start = found + CRLF.length
        continue
      }
      if (found > 0) return this.#take(found)
      if (delimiter.kind !== 'incomplete') {
        this.#pass(delimiter.length, delimiter.kind === 'close')
        return undefined
      }
      await this.#receive()
    }
    const certain = this.#rest.length - this.#heldBack()
    if (certain > 0) return this.#take(certain)
    await this.#receive()
    return Buffer.alloc(0)
  }

  /** The empty line is dropped, unless it is also the begin of the delimiter, as where a part is nothing but headers. */
  async #passEmptyLine(): Promise<void> {
    const { length } = this.#delimiter
    while (this.#rest.length < length && this.#heldBack() === this.#rest.length) await this.#receive()
    while (this.#startsWithDelimiter() && this.#delimiterAt(0).kind === 'incomplete') await this.#receive()
    if (!this.#startsWithDelimiter() || this.#delimiterAt(0).kind === 'none') this.#take(CRLF.length)
    this.#isBeforeContent = false
  }

  #startsWithDelimiter(): boolean {
    return this.#rest.subarray(0, this.#delimiter.length).equals(this.#delimiter)
  }

  #delimiterAt(start: number): Delimiter {
    const rest = this.#rest
    let end = start + this.#delimiter.length
    if (rest[end] === DASH) {
      if (end + 1 === rest.length) return { kind: 'incomplete' }
      return rest[end + 1] === DASH ? { kind: 'close', length: end + 2 - start } : { kind: 'none' }
    }
    const limit = end + PADDING_LIMIT_BYTES
    while (end < limit && (rest[end] === BLANK || rest[end] === TAB)) end++
    if (end === rest.length) return { kind: 'incomplete' }
    if (rest[end] !== CARRIAGE_RETURN) return { kind: 'none' }
    if (end + 1 === rest.length) return { kind: 'incomplete' }
    // The line end stays: it is the first half of the empty line when a part has no headers.
    return rest[end + 1] === LINE_FEED ? { kind: 'part', length: end - start } : { kind: 'none' }
  }

  /** How many of the last bytes may turn out to be the begin of a delimiter. */
  #heldBack(): number {
    const start = this.#rest.lastIndexOf(CARRIAGE_RETURN)
    if (start < 0) return 0
    const tail = this.#rest.subarray(start)
    if (tail.length >= this.#delimiter.length) return 0
    return tail.equals(this.#delimiter.subarray(0, tail.length)) ? tail.length : 0
  }

  #take(length: number): Buffer {
    const piece = this.#rest.subarray(0, length)
    this.#rest = this.#rest.subarray(length)
    return piece
  }

  #pass(length: number, isClosing: boolean): void {
    this.#rest = this.#rest.subarray(length)
    this.#partNumber++
    this.#isInContent = false
    this.#isAtEnd = isClosing
  }

  async #receive(): Promise<void> {
    const received = await this.#chunks.next()
    if (received.done === true) {
      this.#isExhausted = true
      throw badRequest('The multipart body ends before its closing boundary.')
    }
    this.#rest = this.#rest.length === 0 ? received.value : Buffer.concat([this.#rest, received.value])
  }
}

/** Lines of `name: value`; a line that begins with a space continues the previous one. */
function parseHeaders(block: Buffer): ReadonlyMap<string, string> {
  const text = isUtf8(block) ? block.toString() : block.toString('latin1')
  const headers = new Map<string, string>()
  for (const line of text.replace(/\r\n[ \t]+/g, ' ').split('\r\n')) {
    if (line === '') continue
    const [, name, value = ''] = /^([^\s:]+)[ \t]*:[ \t]*(.*)$/s.exec(line) ?? []
    if (name === undefined) throw badRequest('A part of the multipart body has a malformed header.')
    const known = headers.get(name.toLowerCase())
    headers.set(name.toLowerCase(), known === undefined ? value.trimEnd() : `${known}, ${value.trimEnd()}`)
  }
  return headers
}
