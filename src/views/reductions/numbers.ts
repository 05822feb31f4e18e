/**
 * The figures of a selector index that sums a field up: those of `_stats`, over the values that are numbers. Other
 * values are ignored.
 */
import type { StoredRow } from '../layout/index-layout.ts'
import { type NativeReduction, textOf } from './reduction.ts'

/** In the order in which they are sent. `min` and `max` are null where there are no numbers. */
export interface NumberFigures {
  readonly sum: number
  readonly count: number
  readonly min: number | null
  readonly max: number | null
  readonly sumsqr: number
}

export const numbers: NativeReduction = {
  reduce: (rows) => encoded(rows.map(figuresOf).reduce(merged, NONE)),
  rereduce: (reductions) => encoded(reductions.map(figuresIn).reduce(merged, NONE)),
  result: textOf,
}

const NONE: NumberFigures = { sum: 0, count: 0, min: null, max: null, sumsqr: 0 }

function figuresIn(reduction: Buffer): NumberFigures {
  return JSON.parse(reduction.toString())
}

function figuresOf(row: StoredRow): NumberFigures {
  const value: unknown = row.plainNumber ?? JSON.parse(row.value.toString())
  return typeof value === 'number' ? { sum: value, count: 1, min: value, max: value, sumsqr: value * value } : NONE
}

function merged(a: NumberFigures, b: NumberFigures): NumberFigures {
  if (b.count === 0) return a
  if (a.count === 0) return b
  return {
    sum: a.sum + b.sum,
    count: a.count + b.count,
    min: Math.min(a.min ?? 0, b.min ?? 0),
    max: Math.max(a.max ?? 0, b.max ?? 0),
    sumsqr: a.sumsqr + b.sumsqr,
  }
}

function encoded(figures: NumberFigures): Buffer {
  return Buffer.from(JSON.stringify(figures))
}
