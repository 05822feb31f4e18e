/**
 * `_stats`: sum, count, least, greatest and sum of squares of numbers; of lists element by element. A value may also be
 * such statistics itself.
 */
import { RequestError } from '../../document/request-error.ts'
import { isObject } from '../../encoding/json/json-value.ts'
import { type NativeReduction, textOf } from './reduction.ts'

/** In the order in which they are sent. */
interface Figures {
  readonly sum: number
  readonly count: number
  readonly min: number
  readonly max: number
  readonly sumsqr: number
}

type Statistics = Figures | readonly Figures[]

export const statistics: NativeReduction = {
  reduce: (rows) => merged(rows.map((row) => statisticsOf(row.plainNumber ?? parse(row.value)))),
  rereduce: (reductions) => merged(reductions.map((reduction) => statisticsOf(parse(reduction)))),
  result: textOf,
}

function parse(text: Buffer): unknown {
  return JSON.parse(text.toString())
}

function merged(all: readonly Statistics[]): Buffer {
  return Buffer.from(JSON.stringify(all.reduce(merge)))
}

function statisticsOf(value: unknown): Statistics {
  if (Array.isArray(value)) return value.map(elementFigures)
  if (typeof value !== 'number' && !isObject(value)) throw notNumeric()
  return elementFigures(value)
}

function elementFigures(value: unknown): Figures {
  if (typeof value === 'number') return { sum: value, count: 1, min: value, max: value, sumsqr: value * value }
  if (!isObject(value)) throw invalid(`non-numeric _stats input: ${JSON.stringify(value)}`)
  return {
    sum: figure(value, 'sum'),
    count: figure(value, 'count'),
    min: figure(value, 'min'),
    max: figure(value, 'max'),
    sumsqr: figure(value, 'sumsqr'),
  }
}

function figure(value: Readonly<Record<string, unknown>>, name: keyof Figures): number {
  const found = value[name]
  if (typeof found === 'number') return found
  if (found === undefined) throw invalid(`user _stats input missing required field ${name} (${JSON.stringify(value)})`)
  throw invalid(`non-numeric _stats input received for ${name}: ${JSON.stringify(found)}`)
}

function merge(a: Statistics, b: Statistics): Statistics {
  if (isList(a) && isList(b) && a.length === b.length) return a.map((figures, i) => mergeFigures(figures, b[i]!))
  if (isList(a) || isList(b)) throw notNumeric()
  return mergeFigures(a, b)
}

function mergeFigures(a: Figures, b: Figures): Figures {
  return {
    sum: a.sum + b.sum,
    count: a.count + b.count,
    min: Math.min(a.min, b.min),
    max: Math.max(a.max, b.max),
    sumsqr: a.sumsqr + b.sumsqr,
  }
}

function isList(statistics: Statistics): statistics is readonly Figures[] {
  return Array.isArray(statistics)
}

function notNumeric(): RequestError {
  return invalid('builtin _stats function requires map values to be numbers')
}

function invalid(reason: string): RequestError {
  return new RequestError('failed', 'invalid_value', reason)
}
