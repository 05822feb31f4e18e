/**
 * Bounds what one document may cost to be matched, so that no selector holds up the thread: operators that pass over long
 * values pay for it, a nanosecond or so a unit. One operator on the largest document is always affordable.
 */
import { selectorError } from './selector-error.ts'

const MOST_WORK = 32_000_000

export const WORK_A_CHARACTER = 1
export const WORK_A_COLLATED_BYTE = 4
export const WORK_A_STEP = 128

/** Matching never waits, so there is one document at a time. */
let left = MOST_WORK

/** Before each document. */
export function beginDocument(): void {
  left = MOST_WORK
}

/** Throws where a document takes too long. */
export function spend(work: number): void {
  left -= work
  if (left < 0) throw selectorError('invalid_selector', 'The selector takes too long on a document.')
}
