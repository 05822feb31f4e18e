/** The `ETag` of an answer that has no revision: a number that stands for all that the answer depends on. */
import { hash } from 'node:crypto'

/** Quotes included: 128 bits with the digits and capital letters. The parts must be what JSON can say. */
export function entityTag(...parts: readonly unknown[]): string {
  const digest = hash('md5', JSON.stringify(parts))
  return `"${BigInt(`0x${digest}`).toString(36).toUpperCase()}"`
}
