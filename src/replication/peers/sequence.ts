/**
 * A sequence of a changes feed, as its source writes it. Only the source knows what it means: some are numbers, others
 * strings or arrays. They are passed on untouched and compared for equality alone.
 */
import type { JsonValue } from '../../encoding/json/json-value.ts'

export type Sequence = JsonValue

/** What a feed begins with when there is no checkpoint. */
export const FIRST_SEQUENCE: Sequence = 0

export function isSameSequence(left: Sequence, right: Sequence): boolean {
  return left === right || JSON.stringify(left) === JSON.stringify(right)
}

/** How far a feed is, in percent; null where its sequences are not numbers. */
export function progressOf(through: Sequence, last: Sequence): number | null {
  if (typeof through !== 'number' || typeof last !== 'number') return null
  return last <= 0 ? 100 : Math.min(100, Math.floor((100 * through) / last))
}
