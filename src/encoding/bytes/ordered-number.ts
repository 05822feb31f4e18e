/**
 * Numbers as bytes in numeric order. The bits of a double, sign apart, are already in order; they go out seven to a byte, and
 * zeros at the end are dropped. So 1 takes two bytes and 2024 three, and no number's bytes are a prefix of another's.
 */
import type { ByteSink } from './byte-sink.ts'

const longestNumber = 9

const double = new Float64Array(1)
const words = new Uint32Array(double.buffer)
const isLittleEndian = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1
const highWord = isLittleEndian ? 1 : 0
const lowWord = 1 - highWord

/** Writes the magnitude; negative numbers, greatest first, have every bit inverted. Which sign it is, the caller has to say. */
export function writeMagnitude(value: number, sink: ByteSink): void {
  // Not by `assert`, which costs more than all the rest.
  if (Number.isNaN(value)) throw new TypeError('Not a number is not a JSON value.')
  const inversion = value < 0 ? 0xff : 0
  double[0] = Math.abs(value)
  // The sign bit is zero now and leaves 63 bits: nine groups of seven.
  let high = (words[highWord]! << 1) | (words[lowWord]! >>> 31)
  let low = words[lowWord]! << 1
  sink.reserve(longestNumber)
  let more: boolean
  do {
    const group = (high >>> 24) & 0xfe
    high = (high << 7) | (low >>> 25)
    low <<= 7
    more = (high | low) !== 0
    sink.bytes[sink.length++] = (group | Number(more)) ^ inversion
  } while (more)
}
