/**
 * A few bytes at a time: copied, compared, and numbers and digits written among them. Up to some dozens of bytes a loop
 * beats the call into the engine's own copying, comparing and encoding, which is what longer ones get.
 */

/** Copies all bytes and returns how many they are. */
export function copyShort(source: Uint8Array, target: Buffer, at: number, start = 0, end = source.length): number {
  if (end - start > LOOPED_BYTES) copyLong(source, target, at, start, end)
  else for (let from = start, to = at; from < end; from++, to++) target[to] = source[from]!
  return end - start
}

/** The copying of buffers needs no view of the part. */
function copyLong(source: Uint8Array, target: Buffer, at: number, start: number, end: number): void {
  if (source instanceof Buffer) source.copy(target, at, start, end)
  else target.set(source.subarray(start, end), at)
}

/** Copies a part of the source and returns where it ends in the target. */
export function copyBytes(target: Buffer, at: number, source: Uint8Array, start: number, end: number): number {
  return at + copyShort(source, target, at, start, end)
}

/** Writes text of ASCII characters only, and returns where it ends. */
export function writeAscii(target: Buffer, at: number, text: string): number {
  for (let i = 0; i < text.length; i++) target[at + i] = text.charCodeAt(i)
  return at + text.length
}

/** Writes a whole number, not negative, in decimal digits, and returns where it ends. */
export function writeDecimal(target: Buffer, at: number, value: number): number {
  let digits = 1
  for (let rest = value; rest >= 10; rest = Math.floor(rest / 10)) digits++
  let rest = value
  for (let to = at + digits - 1; to >= at; to--) {
    const tenth = Math.floor(rest / 10)
    target[to] = DIGIT_ZERO + rest - 10 * tenth
    rest = tenth
  }
  return at + digits
}

/** Writes the bytes that the rest of a text of lower-case hexadecimal digits stands for, and returns where they end. */
export function writeHexadecimal(target: Buffer, at: number, text: string, start: number): number {
  let to = at
  for (let i = start; i + 1 < text.length; i += 2) {
    target[to++] = (digitOf(text.charCodeAt(i)) << 4) | digitOf(text.charCodeAt(i + 1))
  }
  return to
}

/**
 * The order of byte strings, that of their first difference, a beginning before what it begins: negative, zero or
 * positive, as for sorting.
 */
export function compareBytes(a: Uint8Array, b: Uint8Array): number {
  const size = Math.min(a.length, b.length)
  if (size > LOOPED_BYTES) return Buffer.compare(a, b)
  for (let i = 0; i < size; i++) {
    const difference = a[i]! - b[i]!
    if (difference !== 0) return difference
  }
  return a.length - b.length
}

/** What a number below 2^53 takes at most as a varint. */
export const NUMBER_BYTES = 8

/**
 * A whole number in as few bytes as it needs: seven bits a byte, the lowest first, the high bit on all but the last. Writes
 * it at the position and returns the one after it.
 */
export function writeVarint(target: Uint8Array, at: number, value: number): number {
  let rest = value
  let position = at
  for (; rest >= 0x80; rest = Math.floor(rest / 0x80)) target[position++] = (rest % 0x80) + 0x80
  target[position++] = rest
  return position
}

/** How many bytes a number takes as a varint. */
export function varintBytes(value: number): number {
  let bytes = 1
  for (let rest = value; rest >= 0x80; rest = Math.floor(rest / 0x80)) bytes++
  return bytes
}

export class VarintReader {
  readonly #source: Uint8Array
  at: number

  constructor(source: Uint8Array, at: number) {
    this.#source = source
    this.at = at
  }

  number(): number {
    let value = 0
    for (let unit = 1; ; unit *= 0x80) {
      const byte = this.#source[this.at++]
      if (byte === undefined) throw new RangeError('A number is cut off.')
      if (byte < 0x80) return value + byte * unit
      value += (byte - 0x80) * unit
    }
  }
}

const LOOPED_BYTES = 64
const DIGIT_ZERO = 0x30

/** Letters have bit 6 set and begin with 1 in their low bits. */
function digitOf(code: number): number {
  return (code & 0xf) + (code >> 6) * 9
}
