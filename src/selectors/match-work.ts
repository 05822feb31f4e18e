/**
 * Bounds what one document may cost to be matched, so that no selector blocks the thread: operators that pass over long
 * values pay for it, a nanosecond or so a unit. One operator on the largest document is always affordable.
 */
import { selectorError } from './selector-error.ts'

const LEAST_BUDGET = 32_000_000
/** Of larger documents, so that one operator may pass over all of them. */
const BUDGET_A_BYTE = 3

/** To pass over a value, to try a condition on an element, to make a string or a sort key; then by their lengths. */
export const WORK_A_VALUE = 24
export const WORK_A_TRIAL = 48
export const WORK_A_STRING = 48
export const WORK_A_SORT_KEY = 64
/** What is left to the parser: objects, and strings with escapes. */
export const WORK_A_PARSED_VALUE = 512
export const WORK_A_BYTE = 2
export const WORK_A_CHARACTER = 1
export const WORK_A_COLLATED_BYTE = 4
/** Characters beyond ASCII are looked up one by one. */
export const WORK_AN_ODD_BYTE = 16
export const WORK_A_DIGIT = 16
export const WORK_A_STEP = 128

/** Matching never waits, so there is one document at a time. */
let left = LEAST_BUDGET

/** Before each document; the text that it lies in has so many bytes. */
export function beginDocument(bytes: number): void {
  left = Math.max(LEAST_BUDGET, bytes * BUDGET_A_BYTE)
}

/** Throws where a document takes too long. */
export function spend(work: number): void {
  left -= work
  if (left < 0) throw selectorError('invalid_selector', 'The selector takes too long on a document.')
}
