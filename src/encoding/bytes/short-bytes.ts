/**
 * Writing a few bytes into a large block. Up to some dozens of them a loop beats the call into the engine's own copying
 * and encoding, which is what longer ones get.
 */

/** Copies all bytes and returns how many they are. */
export function copyShort(source: Uint8Array, target: Buffer, at: number, start = 0, end = source.length): number {
  if (end - start > LOOPED_BYTES) target.set(source.subarray(start, end), at)
  else for (let from = start, to = at; from < end; from++, to++) target[to] = source[from]!
  return end - start
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

const LOOPED_BYTES = 64
const DIGIT_ZERO = 0x30

/** Letters have bit 6 set and begin with 1 in their low bits. */
function digitOf(code: number): number {
  return (code & 0xf) + (code >> 6) * 9
}
