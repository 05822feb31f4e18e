/**
 * Documents for a map function: JSON arrays of about one size, each with a header for its document count and length. This size
 * costs an isolate least, since the text stays in the young generation of its heap.
 */
import { PORTION_HEADER_BYTES } from './frame.ts'

const PORTION_BYTES = 56 * 1024
const NO_ROOM = Buffer.alloc(0)
const OPEN = 0x5b
const COMMA = 0x2c
const CLOSE = 0x5d

/** Written to the room where that is large enough. */
export function documentPortions(documents: readonly Uint8Array[], room: Buffer = NO_ROOM): Buffer {
  const size = mostBytes(documents)
  const body = size <= room.length ? room : Buffer.allocUnsafe(size)
  let at = 0
  for (let next = 0; next < documents.length; ) {
    const headerAt = at
    const start = headerAt + PORTION_HEADER_BYTES
    const first = next
    at = start
    for (; next < documents.length && (next === first || at - start < PORTION_BYTES); next++) {
      const document = documents[next]
      if (!document) break
      body[at] = next === first ? OPEN : COMMA
      body.set(document, at + 1)
      at += 1 + document.length
    }
    body[at++] = CLOSE
    body.writeUInt32LE(next - first, headerAt)
    body.writeUInt32LE(at - start, headerAt + 4)
  }
  return body.subarray(0, at)
}

/** All portions but the last one are full. */
function mostBytes(documents: readonly Uint8Array[]): number {
  let bytes = 0
  for (const { length } of documents) bytes += length + 1
  return bytes + (Math.ceil(bytes / PORTION_BYTES) + 1) * (PORTION_HEADER_BYTES + 1)
}
