/**
 * Values as they travel. Parameters are arrays in PostgreSQL's binary form: the driver would send arrays of bytes as text.
 * Results come as text, bytes in hexadecimal digits: the driver reads nothing else.
 */

const BYTEA_OID = 17
const INT8_OID = 20
const HEADER_BYTES = 20

/** Dimensions, whether there are nulls, the type of the elements, how many, and the number of the first. */
function writeHeader(target: Buffer, elementType: number, length: number): void {
  target.writeInt32BE(1, 0)
  target.writeInt32BE(0, 4)
  target.writeInt32BE(elementType, 8)
  target.writeInt32BE(length, 12)
  target.writeInt32BE(1, 16)
}

export function byteaArray(items: readonly Uint8Array[]): Buffer {
  let bytes = HEADER_BYTES
  for (const item of items) bytes += 4 + item.length
  const array = Buffer.allocUnsafe(bytes)
  writeHeader(array, BYTEA_OID, items.length)
  let at = HEADER_BYTES
  for (const item of items) {
    at = array.writeInt32BE(item.length, at)
    array.set(item, at)
    at += item.length
  }
  return array
}

export function int8Array(items: readonly number[]): Buffer {
  const array = Buffer.allocUnsafe(HEADER_BYTES + 12 * items.length)
  writeHeader(array, INT8_OID, items.length)
  let at = HEADER_BYTES
  for (const item of items) {
    at = array.writeInt32BE(8, at)
    at = array.writeBigInt64BE(BigInt(item), at)
  }
  return array
}

/** Bytes that came as `\x` and hexadecimal digits, or a part of them. */
export function bytesOf(text: string, start = 0, end = (text.length - 2) / 2): Buffer {
  if (start === end) return Buffer.alloc(0)
  return Buffer.from(text.slice(2 + 2 * start, 2 + 2 * end), 'hex')
}

/** Numbers that came joined by commas. */
export function numbersOf(text: string | null): number[] {
  return text === null || text === '' ? [] : text.split(',').map(Number)
}
