/** Copies short runs of bytes, as keys, ids and punctuation are, by hand: a call into the runtime costs more than they do. */

const SHORT_BYTES = 48

/** Copies a part of the source to the position and returns where it ends there. */
export function copyBytes(
  target: Uint8Array,
  position: number,
  source: Uint8Array,
  start: number,
  end: number,
): number {
  const size = end - start
  if (size > SHORT_BYTES) target.set(source.subarray(start, end), position)
  else for (let i = 0; i < size; i++) target[position + i] = source[start + i]!
  return position + size
}
