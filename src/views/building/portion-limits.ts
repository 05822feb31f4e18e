/** How many rows, and how many bytes of them, go on at a time. */

/** Rows are handed on in portions. One ends with the row that reaches one of these. */
export const PORTION_ROWS = 2048

export const PORTION_BYTES = 1024 * 1024
