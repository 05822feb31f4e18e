/**
 * Gives the memory of a large buffer back now, and not with the next garbage collection: megabytes that come with each
 * request would otherwise bring one collection of the whole heap after the other. Nobody may use its bytes any more.
 */
export function freeBytes(bytes: Uint8Array): void {
  const { buffer, byteLength } = bytes
  // A part of a larger block is not ours alone. What comes from a socket in one piece is smaller, too.
  if (byteLength <= SMALL_BYTES || byteLength !== buffer.byteLength) return
  if (buffer instanceof ArrayBuffer) buffer.transfer(0)
}

const SMALL_BYTES = 64 * 1024
