/** View order and raw order of two values, written straight from the rules: what keys are tested against. */
import type { JsonValue } from '../../src/encoding/json/json-value.ts'

type Comparison = (left: JsonValue, right: JsonValue) => number

const collator = new Intl.Collator('en', { sensitivity: 'variant' })

export const compareValues = comparison(
  ['null', 'false', 'true', 'number', 'string', 'array', 'object'],
  // Normalized first: ICU misses some canonical equivalents when it normalizes as it goes.
  (left, right) => Math.sign(collator.compare(left.normalize('NFD'), right.normalize('NFD'))),
)

export const compareRawValues = comparison(
  ['number', 'false', 'null', 'true', 'object', 'array', 'string'],
  (left, right) => compareLists(codePoints(left), codePoints(right), (a, b) => Math.sign(Number(a) - Number(b))),
)

function comparison(types: string[], compareText: (left: string, right: string) => number): Comparison {
  const compare: Comparison = (left, right) => {
    const byType = types.indexOf(typeOf(left)) - types.indexOf(typeOf(right))
    if (byType !== 0) return Math.sign(byType)
    if (typeof left === 'string' && typeof right === 'string') return compareText(left, right)
    if (typeof left === 'number' && typeof right === 'number') return left === right ? 0 : left < right ? -1 : 1
    return compareLists(parts(left), parts(right), compare)
  }
  return compare
}

function typeOf(value: JsonValue): string {
  if (value === null || typeof value === 'boolean') return String(value)
  return Array.isArray(value) ? 'array' : typeof value
}

/** Elements of an array; names and values of an object in turn. */
function parts(value: JsonValue): JsonValue[] {
  if (Array.isArray(value)) return value
  return typeof value === 'object' && value !== null ? Object.entries(value).flat() : []
}

function compareLists(left: JsonValue[], right: JsonValue[], compare: Comparison): number {
  for (let i = 0; i < Math.min(left.length, right.length); i++) {
    const order = compare(left[i]!, right[i]!)
    if (order !== 0) return order
  }
  return Math.sign(left.length - right.length)
}

/** The order of UTF-8 bytes is the order of code points. */
function codePoints(text: string): number[] {
  return [...text].map((character) => character.codePointAt(0)!)
}
