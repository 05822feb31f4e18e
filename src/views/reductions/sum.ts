/**
 * `_sum`: adds numbers; lists element by element, the shorter one padded; objects member by member. A number that meets a
 * list counts as a list of one.
 */
import { RequestError } from '../../document/request-error.ts'
import { isObject } from '../../encoding/json/json-value.ts'
import { plainNumberIn } from '../layout/index-layout.ts'
import { type NativeReduction, textOf } from './reduction.ts'

type Summand = number | readonly number[] | { readonly [name: string]: Summand }

export const sum: NativeReduction = {
  reduce: (rows) => total(rows.map((row) => row.plainNumber ?? summandOf(parse(row.value)))),
  rereduce: (reductions) =>
    total(reductions.map((reduction) => plainNumberIn(reduction) ?? summandOf(parse(reduction)))),
  result: textOf,
}

function parse(text: Buffer): unknown {
  return JSON.parse(text.toString())
}

function total(summands: readonly Summand[]): Buffer {
  return Buffer.from(JSON.stringify(summands.length === 0 ? 0 : summands.reduce(add)))
}

function summandOf(value: unknown): Summand {
  if (typeof value === 'number') return value
  if (Array.isArray(value) && value.every((element) => typeof element === 'number')) return value
  if (!isObject(value)) throw notSummable()
  return fromNames(Object.keys(value), (name) => summandOf(value[name]))
}

function add(a: Summand, b: Summand): Summand {
  if (typeof a === 'number' && typeof b === 'number') return a + b
  if (isNumeric(a) && isNumeric(b)) return addLists(asList(a), asList(b))
  if (isNumeric(a) || isNumeric(b)) throw notSummable()
  const names = [...new Set([...Object.keys(a), ...Object.keys(b)])].sort(compareBytes)
  return fromNames(names, (name) => {
    const [left, right] = [ownMember(a, name), ownMember(b, name)]
    if (left === undefined || right === undefined) return left ?? right ?? 0
    return add(left, right)
  })
}

function addLists(a: readonly number[], b: readonly number[]): number[] {
  const [longer, shorter] = a.length >= b.length ? [a, b] : [b, a]
  return longer.map((element, i) => element + (shorter[i] ?? 0))
}

function isNumeric(summand: Summand): summand is number | readonly number[] {
  return typeof summand === 'number' || Array.isArray(summand)
}

function asList(summand: number | readonly number[]): readonly number[] {
  return typeof summand === 'number' ? [summand] : summand
}

function fromNames(names: readonly string[], memberOf: (name: string) => Summand): Summand {
  return Object.fromEntries(names.map((name) => [name, memberOf(name)]))
}

function ownMember(object: { readonly [name: string]: Summand }, name: string): Summand | undefined {
  return Object.hasOwn(object, name) ? object[name] : undefined
}

function compareBytes(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b))
}

function notSummable(): RequestError {
  const reason = 'builtin _sum function requires map values to be numbers or lists of numbers'
  return new RequestError('failed', 'invalid_value', reason)
}
