/**
 * How the bytes of an attachment lie in the store: in chunks of one size, numbered from 0; only the last one is shorter.
 * An empty attachment has one empty chunk, so that what is there can be told from what is not.
 */

/** Fits into 32 pages of the file together with what the page itself needs. Part of the format: never change it. */
export const CHUNK_BYTES = 32 * 8192 - 64

export interface ChunkSlice {
  readonly chunk: number
  readonly start: number
  readonly end: number
}

/** The chunks that hold the bytes from `start` to `end` (exclusive), and which part of each. */
export function* slicesOf(start: number, end: number): Generator<ChunkSlice> {
  for (let at = start; at < end; ) {
    const chunk = Math.floor(at / CHUNK_BYTES)
    const base = chunk * CHUNK_BYTES
    const sliceEnd = Math.min(end, base + CHUNK_BYTES)
    yield { chunk, start: at - base, end: sliceEnd - base }
    at = sliceEnd
  }
}
