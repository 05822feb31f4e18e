/** Decodes the body of a request, chunked or with a length, from the bytes of a connection. */
import type { Trailers } from './incoming-body.ts'
import { type BodyFraming, checkCharacters, malformed, parseHeaders } from './request.ts'

export interface BodyDecoder {
  /** Whether all of it was seen. */
  readonly isDone: boolean
  /** The trailers. */
  readonly trailers: Trailers
  /** Emits the body bytes as views of the input; returns how many input bytes were consumed. */
  decode(bytes: Buffer, take: (piece: Buffer) => void): number
}

export function bodyDecoder(framing: BodyFraming): BodyDecoder {
  if (framing === 'unknown') return ENDLESS
  return framing === 'chunked' ? new ChunkedDecoder() : new SizedDecoder(framing)
}

const NO_TRAILERS: Trailers = Object.freeze(Object.create(null))

/** Of a body whose end is unknown: it is never done, and its bytes are ignored. */
const ENDLESS: BodyDecoder = { isDone: false, trailers: NO_TRAILERS, decode: (bytes) => bytes.length }

class SizedDecoder implements BodyDecoder {
  readonly trailers = NO_TRAILERS
  #left: number

  constructor(size: number) {
    this.#left = size
  }

  get isDone(): boolean {
    return this.#left === 0
  }

  decode(bytes: Buffer, take: (piece: Buffer) => void): number {
    const size = Math.min(this.#left, bytes.length)
    if (size === 0) return 0
    this.#left -= size
    take(size === bytes.length ? bytes : bytes.subarray(0, size))
    return size
  }
}

/** A chunk size line may carry extensions, which are ignored. */
const SIZE_LINE_LIMIT = 1024
/** Of all extensions of a body together: no other limit counts them. */
const EXTENSIONS_LIMIT_BYTES = 16 * 1024
const TRAILERS_LIMIT = 16 * 1024
/** Hexadecimal digits of a chunk size: more than any body needs. */
const SIZE_DIGITS_LIMIT = 12
/** Contents of chunks up to this size are joined: a piece for each would cost more than its bytes. */
const SMALL_CHUNK_BYTES = 64
const CARRIAGE_RETURN = 0x0d
const LINE_FEED = 0x0a

class ChunkedDecoder implements BodyDecoder {
  isDone = false
  #trailers: Trailers = NO_TRAILERS
  /** What is expected next. */
  #next: 'size' | 'content' | 'end of chunk' | 'trailers' = 'size'
  /** Of the chunk. */
  #left = 0
  /** The line that is being read, and lines of trailers before it. */
  #line = ''
  #trailerLines = ''
  #extensionBytes = 0

  get trailers(): Trailers {
    return this.#trailers
  }

  decode(bytes: Buffer, take: (piece: Buffer) => void): number {
    let at = 0
    while (at < bytes.length && !this.isDone) {
      if (this.#next === 'content') at = this.#takeContent(bytes, at, take)
      else {
        const from = at
        if (this.#line === '' && this.#next === 'size') at = this.#takeSmallChunks(bytes, at, take)
        if (at === from) at = this.#takeLine(bytes, at)
      }
    }
    return at
  }

  /** Whole small chunks without extensions, in one piece. Returns where the first chunk begins that is not one. */
  #takeSmallChunks(bytes: Buffer, from: number, take: (piece: Buffer) => void): number {
    let contents: Buffer | undefined
    let length = 0
    let at = from
    for (;;) {
      const line = smallSizeLine(bytes, at)
      if (line === undefined) break
      const end = line.end + line.sizeBytes
      if (bytes[end] !== CARRIAGE_RETURN || bytes[end + 1] !== LINE_FEED) break
      contents ??= Buffer.allocUnsafe(bytes.length - at)
      for (let i = line.end; i < end; i++) contents[length++] = bytes[i]!
      at = end + 2
    }
    if (contents) take(contents.subarray(0, length))
    return at
  }

  #takeContent(bytes: Buffer, at: number, take: (piece: Buffer) => void): number {
    const end = Math.min(bytes.length, at + this.#left)
    this.#left -= end - at
    if (this.#left === 0) this.#next = 'end of chunk'
    take(bytes.subarray(at, end))
    return end
  }

  #takeLine(bytes: Buffer, at: number): number {
    const feed = bytes.indexOf(LINE_FEED, at)
    const end = feed < 0 ? bytes.length : feed + 1
    if (this.#line.length + end - at > SIZE_LINE_LIMIT) throw malformed('A line of a chunked body is too long.')
    this.#line += bytes.toString('latin1', at, end)
    if (feed < 0) return end
    if (!this.#line.endsWith('\r\n')) throw malformed('A line of a chunked body ends without CRLF.')
    const line = this.#line.slice(0, -2)
    this.#line = ''
    this.#understand(line)
    return end
  }

  #understand(line: string): void {
    if (this.#next === 'size') {
      const { sizeBytes, extensionBytes } = chunkStart(line)
      this.#extensionBytes += extensionBytes
      if (this.#extensionBytes > EXTENSIONS_LIMIT_BYTES) throw malformed('The chunk extensions are too long.')
      this.#left = sizeBytes
      this.#next = this.#left === 0 ? 'trailers' : 'content'
    } else if (this.#next === 'end of chunk') {
      if (line !== '') throw malformed('A chunk is longer than its size.')
      this.#next = 'size'
    } else if (line === '') {
      this.#trailers = parseTrailers(this.#trailerLines)
      this.isDone = true
    } else {
      this.#trailerLines += `${line}\r\n`
      if (this.#trailerLines.length > TRAILERS_LIMIT) throw malformed('The trailers are too long.')
    }
  }
}

/** The digits of a small size that is not zero, and a line end; undefined where there is anything else. */
function smallSizeLine(bytes: Buffer, at: number): { sizeBytes: number; end: number } | undefined {
  let sizeBytes = 0
  let end = at
  for (; end - at < SIZE_DIGITS_LIMIT; end++) {
    const digit = digitOf(bytes[end])
    if (digit === undefined) break
    sizeBytes = sizeBytes * 16 + digit
  }
  const isSmall = sizeBytes > 0 && sizeBytes <= SMALL_CHUNK_BYTES
  if (!isSmall || bytes[end] !== CARRIAGE_RETURN || bytes[end + 1] !== LINE_FEED) return undefined
  return { sizeBytes, end: end + 2 }
}

function digitOf(byte = 0): number | undefined {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30
  const lower = byte | 0x20
  return lower >= 0x61 && lower <= 0x66 ? lower - 0x57 : undefined
}

/** Digits, then extensions. Spaces around the size are refused: other parsers differ on them. */
const CHUNK_START = /^([0-9a-f]+)(;[\t\x20-\x7e\x80-\xff]*)?$/i

function chunkStart(line: string): { sizeBytes: number; extensionBytes: number } {
  const [, digits, extensions = ''] = CHUNK_START.exec(line) ?? []
  if (digits === undefined) throw malformed('The size of a chunk is not a number.')
  if (digits.length > SIZE_DIGITS_LIMIT) throw malformed('The size of a chunk is too large.')
  return { sizeBytes: Number.parseInt(digits, 16), extensionBytes: extensions.length }
}

/** Trailers. Headers that affect framing, routing or authentication are not allowed there. */
function parseTrailers(text: string): Trailers {
  checkCharacters(text)
  const trailers = parseHeaders(text, 0)
  for (const name in trailers) if (NOT_IN_TRAILERS.has(name)) throw malformed(`${name} is not allowed in a trailer.`)
  return trailers
}

/** Framing, routing, authentication, conditions, and what the content is. */
const NOT_IN_TRAILERS = new Set([
  'accept',
  'authorization',
  'cache-control',
  'connection',
  'content-encoding',
  'content-length',
  'content-range',
  'content-type',
  'cookie',
  'destination',
  'expect',
  'host',
  'if-match',
  'if-modified-since',
  'if-none-match',
  'if-range',
  'if-unmodified-since',
  'keep-alive',
  'max-forwards',
  'origin',
  'proxy-authorization',
  'proxy-connection',
  'range',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'x-http-method-override',
])
