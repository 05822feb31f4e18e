/**
 * Tuples as bytes whose memcmp order is the order of the tuples: element by element, a shorter tuple before a longer
 * one that it begins. Elements are bytes, texts (by their UTF-8 bytes), unsigned integers up to 2^53 and tuples; of
 * different kinds bytes come first, then texts, tuples and integers. No encoding begins with a zero byte.
 */

export type TupleElement = Uint8Array | string | number | readonly TupleElement[]
export type Tuple = readonly TupleElement[]

const BYTES = 0x01
const TEXT = 0x02
const NESTED = 0x05
/** An integer of n bytes has the mark INTEGER + n, so that longer ones are larger. */
const INTEGER = 0x0c
const INTEGER_BYTES_LIMIT = 7

/** Ends bytes, texts and nested tuples; a zero byte inside of bytes or text is followed by `ESCAPED`. */
const END = 0x00
const ESCAPED = 0xff

export function encodeTuple(tuple: Tuple): Buffer {
  const parts: Uint8Array[] = []
  for (const element of tuple) encodeElement(element, parts)
  return Buffer.concat(parts)
}

/** Throws when the bytes are not what `encodeTuple` gives. */
export function decodeTuple(bytes: Uint8Array): TupleElement[] {
  const reader = new TupleReader(bytes)
  const tuple: TupleElement[] = []
  while (!reader.done) tuple.push(reader.element())
  return tuple
}

function encodeElement(element: TupleElement, parts: Uint8Array[]): void {
  if (typeof element === 'string') parts.push(Buffer.of(TEXT), escapeZeros(Buffer.from(element)), Buffer.of(END))
  else if (typeof element === 'number') parts.push(encodeInteger(element))
  else if (element instanceof Uint8Array) parts.push(Buffer.of(BYTES), escapeZeros(element), Buffer.of(END))
  else {
    parts.push(Buffer.of(NESTED))
    for (const inner of element) encodeElement(inner, parts)
    parts.push(Buffer.of(END))
  }
}

function encodeInteger(value: number): Buffer {
  if (!Number.isSafeInteger(value) || value < 0) throw new RangeError(`${value} is not an unsigned integer.`)
  let size = 0
  for (let rest = value; rest > 0; rest = Math.floor(rest / 256)) size++
  const bytes = Buffer.alloc(1 + size)
  bytes[0] = INTEGER + size
  for (let i = size, rest = value; i > 0; i--, rest = Math.floor(rest / 256)) bytes[i] = rest % 256
  return bytes
}

function escapeZeros(bytes: Uint8Array): Uint8Array {
  if (!bytes.includes(0)) return bytes
  const escaped: number[] = []
  for (const byte of bytes) {
    escaped.push(byte)
    if (byte === 0) escaped.push(ESCAPED)
  }
  return Buffer.from(escaped)
}

class TupleReader {
  readonly #bytes: Uint8Array
  #at = 0

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes
  }

  get done(): boolean {
    return this.#at === this.#bytes.length
  }

  element(): TupleElement {
    const mark = this.#next()
    if (mark === BYTES) return this.#escaped()
    if (mark === TEXT) return this.#escaped().toString()
    if (mark === NESTED) return this.#nested()
    const size = mark - INTEGER
    if (size < 0 || size > INTEGER_BYTES_LIMIT) throw new RangeError('The bytes are not those of a tuple.')
    let value = 0
    for (let i = 0; i < size; i++) value = value * 256 + this.#next()
    return value
  }

  #nested(): TupleElement[] {
    const elements: TupleElement[] = []
    while (this.#bytes[this.#at] !== END) elements.push(this.element())
    this.#at++
    return elements
  }

  #escaped(): Buffer {
    const bytes: number[] = []
    for (;;) {
      const byte = this.#next()
      if (byte !== END) bytes.push(byte)
      else if (this.#bytes[this.#at] === ESCAPED) {
        bytes.push(0)
        this.#at++
      } else return Buffer.from(bytes)
    }
  }

  #next(): number {
    const byte = this.#bytes[this.#at++]
    if (byte === undefined) throw new RangeError('The bytes of a tuple end too early.')
    return byte
  }
}
