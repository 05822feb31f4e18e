/** The order of byte strings: that of their first difference, a beginning before what it begins. */

/** Up to here a loop beats the call into the engine's own comparison. */
const SHORT_BYTES = 64

/** Negative, zero or positive, as for sorting. */
export function compareBytes(a: Uint8Array, b: Uint8Array): number {
  const size = Math.min(a.length, b.length)
  if (size > SHORT_BYTES) return Buffer.compare(a, b)
  for (let i = 0; i < size; i++) {
    const difference = a[i]! - b[i]!
    if (difference !== 0) return difference
  }
  return a.length - b.length
}
