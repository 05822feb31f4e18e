import { ByteSink } from './byte-sink.ts'

/**
 * Writer of the Erlang external term format, as far as revision ids need it: they are the MD5 of a term, so two servers
 * give the same edit the same id only when every byte agrees.
 */
export class TermWriter extends ByteSink {
  readonly #frontBytes: number

  /** The first bytes may be left free, so that the term can be put into another one where it lies. */
  constructor(initialSizeBytes = 64 * 1024, frontBytes = 0) {
    super(initialSizeBytes)
    this.#frontBytes = frontBytes
    this.length = frontBytes
  }

  override clear(): void {
    super.clear()
    this.length = this.#frontBytes
  }

  /** The byte that begins every top-level term; nested terms go without. */
  version(): void {
    this.#byte(131)
  }

  null(): void {
    this.append(ATOM_NULL, 0, ATOM_NULL.length)
  }

  boolean(value: boolean): void {
    const atom = value ? ATOM_TRUE : ATOM_FALSE
    this.append(atom, 0, atom.length)
  }

  /** Any safe integer. */
  integer(value: number): void {
    this.#reserve(5)
    if (value >= 0 && value <= 255) {
      this.bytes[this.length] = SMALL_INTEGER
      this.bytes[this.length + 1] = value
      this.length += 2
    } else if (value === (value | 0)) {
      this.bytes[this.length] = INTEGER
      this.view.setInt32(this.length + 1, value)
      this.length += 5
    } else {
      this.#longInteger(value)
    }
  }

  /** A safe integer beyond 32 bits, in the form of `bigInteger`: times in milliseconds are such. */
  #longInteger(value: number): void {
    this.#reserve(3 + SAFE_INTEGER_BYTES)
    const start = this.length + 3
    let at = start
    for (let rest = Math.abs(value); rest > 0; rest = Math.floor(rest / 256)) this.bytes[at++] = rest % 256
    this.bytes[this.length] = SMALL_BIG
    this.bytes[this.length + 1] = at - start
    this.bytes[this.length + 2] = value < 0 ? 1 : 0
    this.length = at
  }

  /** An integer beyond 32 bits: sign, then the magnitude with its lowest byte first. */
  bigInteger(value: bigint): void {
    const negative = value < 0n
    const hex = (negative ? -value : value).toString(16)
    const magnitude = Buffer.from(hex.length % 2 === 0 ? hex : `0${hex}`, 'hex').reverse()
    this.#reserve(6 + magnitude.length)
    if (magnitude.length <= 255) {
      this.#byte(SMALL_BIG)
      this.#byte(magnitude.length)
    } else {
      this.#byte(LARGE_BIG)
      this.#uint32(magnitude.length)
    }
    this.#byte(negative ? 1 : 0)
    this.append(magnitude, 0, magnitude.length)
  }

  float(value: number): void {
    this.#reserve(9)
    this.bytes[this.length] = NEW_FLOAT
    this.view.setFloat64(this.length + 1, value)
    this.length += 9
  }

  binary(content: Uint8Array): void {
    const at = this.openBinary()
    this.append(content, 0, content.length)
    this.closeBinary(at)
  }

  text(content: string): void {
    this.binary(Buffer.from(content, 'utf8'))
  }

  tuple(arity: number): void {
    this.#reserve(2)
    this.bytes[this.length] = SMALL_TUPLE
    this.bytes[this.length + 1] = arity
    this.length += 2
  }

  /** Begins a binary whose content is appended next; `closeBinary` is given what this returns. */
  openBinary(): number {
    this.#reserve(5)
    const at = this.length
    this.bytes[at] = BINARY
    this.length = at + 5
    return at
  }

  closeBinary(at: number): void {
    const count = this.length - at - 5
    const bytes = this.bytes
    bytes[at + 1] = count >>> 24
    bytes[at + 2] = count >>> 16
    bytes[at + 3] = count >>> 8
    bytes[at + 4] = count
  }

  /** Begins a list whose count is not known yet; `closeList` is given what this returns. */
  openList(): number {
    this.#reserve(5)
    const at = this.length
    this.bytes[at] = LIST
    this.length = at + 5
    return at
  }

  closeList(at: number, count: number): void {
    if (count === 0) this.length = at
    else this.countList(at, count)
    this.#byte(NIL)
  }

  /** Sets the count of a list that stays open. */
  countList(at: number, count: number): void {
    this.view.setUint32(at + 1, count)
  }

  /**
   * Closes a list of integers 0…255 only, which the format writes as a string of bytes. Each element takes two bytes of
   * which the second is its value, so the string is packed in place.
   */
  closeByteList(at: number, count: number): void {
    if (count === 0 || count > 65535) {
      this.closeList(at, count)
      return
    }
    const bytes = this.bytes
    bytes[at] = BYTE_LIST
    this.view.setUint16(at + 1, count)
    for (let index = 0; index < count; index++) bytes[at + 3 + index] = bytes[at + 6 + 2 * index]!
    this.length = at + 3 + count
  }

  /** Whether what was written since `start` is one integer 0…255. */
  isByteSince(start: number): boolean {
    return this.length === start + 2 && this.bytes[start] === SMALL_INTEGER
  }

  /** Bytes of an open binary, or of a term encoded before. */
  append(source: Uint8Array, start: number, end: number): void {
    this.#reserve(end - start)
    const bytes = this.bytes
    let at = this.length
    if (end - start > SHORT_COPY_BYTES) {
      bytes.set(source.subarray(start, end), at)
    } else {
      for (let from = start; from < end; from++) bytes[at++] = source[from]!
    }
    this.length += end - start
  }

  /**
   * Bytes of an open binary: those of a JSON string that stand for themselves, up to a quote, a backslash, a control
   * character or the end, wherever that is. Most of what is ever scanned is this: short texts are copied four
   * bytes at a time, the rest of a long one is looked through first and then copied in one piece.
   */
  appendPlain(text: Buffer, view: DataView, start: number, end: number): number {
    this.#reserve(SHORT_TEXT_BYTES)
    const bytes = this.bytes
    const bytesView = this.view
    const limit = Math.min(end, start + SHORT_TEXT_BYTES)
    let at = start
    let to = this.length
    for (; at + 4 <= limit; at += 4, to += 4) {
      const word = view.getInt32(at, true)
      if ((specialBits(word) & HIGH_BITS) !== 0) break
      bytesView.setInt32(to, word, true)
    }
    for (; at < limit; at++, to++) {
      const byte = text[at]!
      if (byte === 0x22 || byte === 0x5c || byte < 0x20) {
        this.length = to
        return at
      }
      bytes[to] = byte
    }
    this.length = to
    return at < end ? this.#appendLong(text, view, at, end) : at
  }

  #appendLong(text: Buffer, view: DataView, start: number, limit: number): number {
    const end = endOfPlain(text, view, start, limit)
    this.#reserve(end - start)
    text.copy(this.bytes, this.length, start, end)
    this.length += end - start
    return end
  }

  /** A character of an open binary, as UTF-8. */
  character(codePoint: number): void {
    if (codePoint < 0x80) {
      this.#byte(codePoint)
    } else if (codePoint < 0x800) {
      this.#byte(0xc0 | (codePoint >> 6))
      this.#byte(0x80 | (codePoint & 0x3f))
    } else if (codePoint < 0x10000) {
      this.#byte(0xe0 | (codePoint >> 12))
      this.#byte(0x80 | ((codePoint >> 6) & 0x3f))
      this.#byte(0x80 | (codePoint & 0x3f))
    } else {
      this.#byte(0xf0 | (codePoint >> 18))
      this.#byte(0x80 | ((codePoint >> 12) & 0x3f))
      this.#byte(0x80 | ((codePoint >> 6) & 0x3f))
      this.#byte(0x80 | (codePoint & 0x3f))
    }
  }

  #byte(value: number): void {
    this.#reserve(1)
    this.bytes[this.length++] = value
  }

  #uint32(value: number): void {
    this.#reserve(4)
    this.view.setUint32(this.length, value)
    this.length += 4
  }

  #reserve(count: number): void {
    if (this.length + count > this.bytes.length) this.grow(count)
  }
}

const SMALL_INTEGER = 97
const INTEGER = 98
const SMALL_BIG = 110
const LARGE_BIG = 111
const NEW_FLOAT = 70
const BINARY = 109
const BYTE_LIST = 107
const LIST = 108
const NIL = 106
const SMALL_TUPLE = 104

/** The bytes of the largest safe integer. */
const SAFE_INTEGER_BYTES = 7

const ATOM_NULL = atom('null')
const ATOM_TRUE = atom('true')
const ATOM_FALSE = atom('false')

/** Up to here a loop beats the call into the engine's own copy. */
const SHORT_COPY_BYTES = 48

/** Beyond so many bytes a text counts as long. */
const SHORT_TEXT_BYTES = 64

const HIGH_BITS = 0x80808080

/** Where bytes end that stand for themselves in a JSON string. Sixteen at a time: this is the innermost loop of all. */
function endOfPlain(text: Buffer, view: DataView, start: number, limit: number): number {
  let at = start
  for (; at + 16 <= limit; at += 16) {
    const bits =
      specialBits(view.getInt32(at, true)) |
      specialBits(view.getInt32(at + 4, true)) |
      specialBits(view.getInt32(at + 8, true)) |
      specialBits(view.getInt32(at + 12, true))
    if ((bits & HIGH_BITS) !== 0) break
  }
  for (; at < limit; at++) {
    const byte = text[at]!
    if (byte === 0x22 || byte === 0x5c || byte < 0x20) break
  }
  return at
}

/**
 * The high bit of a byte is set where it is a quote, a backslash or below a space; above one that is, others may be set
 * wrongly.
 */
function specialBits(word: number): number {
  return (((word ^ 0x22222222) - 0x01010101) | ((word ^ 0x5c5c5c5c) - 0x01010101) | (word - 0x20202020)) & ~word
}

function atom(name: string): Buffer {
  return Buffer.concat([Buffer.from([100, 0, name.length]), Buffer.from(name, 'latin1')])
}
