/** The operators of selectors, each made ready once for many values that lie in JSON texts. */

import { collationKey } from '../encoding/collation/collation-key.ts'
import { endOfValue } from '../encoding/collation/plain-key-writer.ts'
import type { JsonValue } from '../encoding/json/json-value.ts'
import { ComparedValue, isPlain, isPlainAt, type Order, sortKeyAt } from './compared-value.ts'
import type { Condition, ValueTest } from './condition.ts'
import { spend, WORK_A_COLLATED_BYTE, WORK_A_DIGIT } from './match-work.ts'
import { linearPattern } from './pattern/linear-pattern.ts'
import { badArgument } from './selector-error.ts'
import { numberAt, someElement, someMember, stringAt, typeAt, valueAt } from './value-text.ts'

/** Whether the value that begins at a place of a text passes. */
export type ReadyTest = (text: Buffer, at: number) => boolean

/** Makes a condition on elements of arrays, or on the names of members, ready. */
export type ReadyCondition = (condition: Condition) => ReadyTest

export function readyTest(test: ValueTest, order: Order, ready: ReadyCondition): ReadyTest {
  switch (test.operator) {
    case '$eq': {
      const value = new ComparedValue(test.argument, order)
      return (text, at) => value.equals(text, at)
    }
    case '$ne': {
      const value = new ComparedValue(test.argument, order)
      return (text, at) => !value.equals(text, at)
    }
    case '$lt': {
      const value = new ComparedValue(test.argument, order)
      return (text, at) => value.compare(text, at) < 0
    }
    case '$lte': {
      const value = new ComparedValue(test.argument, order)
      return (text, at) => value.compare(text, at) <= 0
    }
    case '$gte': {
      const value = new ComparedValue(test.argument, order)
      return (text, at) => value.compare(text, at) >= 0
    }
    case '$gt': {
      const value = new ComparedValue(test.argument, order)
      return (text, at) => value.compare(text, at) > 0
    }
    case '$in':
      return among(test.argument, order)
    case '$nin':
      return inverse(among(test.argument, order))
    case '$exists':
      return () => test.argument
    case '$type':
      return (text, at) => typeAt(text, at) === test.argument
    case '$size':
      return (text, at) => typeAt(text, at) === 'array' && lengthUpTo(text, at, test.argument + 1) === test.argument
    case '$mod':
      return remainder(test.argument)
    case '$regex':
      return pattern(test.argument)
    case '$beginsWith':
      return (text, at) => typeAt(text, at) === 'string' && stringAt(text, at).startsWith(test.argument)
    case '$all':
      return holdingAll(test.argument)
    case '$elemMatch': {
      const inner = ready(test.argument)
      return (text, at) => typeAt(text, at) === 'array' && someElement(text, at, (element) => inner(text, element))
    }
    case '$allMatch': {
      const inner = ready(test.argument)
      return (text, at) =>
        typeAt(text, at) === 'array' &&
        lengthUpTo(text, at, 1) > 0 &&
        !someElement(text, at, (element) => !inner(text, element))
    }
    case '$keyMapMatch': {
      const inner = ready(test.argument)
      return (text, at) => typeAt(text, at) === 'object' && someMember(text, at, (name) => inner(text, name))
    }
    case '$not':
      return inverse(readyTest(test.argument, order, ready))
  }
}

function inverse(test: ReadyTest): ReadyTest {
  return (text, at) => !test(text, at)
}

/** Up to this number of values are compared one by one. */
const FEW_VALUES = 4

/** Of an array the elements count, and not the array itself. */
function among(values: readonly JsonValue[], order: Order): ReadyTest {
  const isOne = oneOf(values, order)
  return (text, at) =>
    typeAt(text, at) === 'array' ? someElement(text, at, (element) => isOne(text, element)) : isOne(text, at)
}

function oneOf(values: readonly JsonValue[], order: Order): ReadyTest {
  if (order === 'bytes') {
    const ids = new Set(values.filter((value) => typeof value === 'string'))
    return (text, at) => typeAt(text, at) === 'string' && ids.has(stringAt(text, at))
  }
  if (values.length <= FEW_VALUES) {
    const compared = values.map((value) => new ComparedValue(value, order))
    return (text, at) => compared.some((value) => value.equals(text, at))
  }
  return amongMany(values)
}

/**
 * Numbers and plain strings are looked up as they are. Sort keys are made only when a document has a value that needs them:
 * those of a long list take long.
 */
function amongMany(values: readonly JsonValue[]): ReadyTest {
  const numbers = new Set<number>()
  const plain = new Set<string>()
  const odd: string[] = []
  const texts: string[] = []
  const rest: JsonValue[] = []
  for (const value of values) {
    if (typeof value === 'number') numbers.add(value)
    else if (typeof value === 'string') texts.push(value)
    else rest.push(value)
  }
  for (const text of texts) {
    if (isPlain(text)) plain.add(text)
    else odd.push(text)
  }
  const oddTexts = amongKeys(odd)
  const anyTexts = amongKeys(texts)
  const others = amongKeys(rest)
  return (text, at) => {
    const type = typeAt(text, at)
    if (type === 'number') return numbers.has(numberAt(text, at))
    if (type !== 'string') return others(text, at)
    if (!isPlainAt(text, at)) return anyTexts(text, at)
    return plain.has(stringAt(text, at)) || oddTexts(text, at)
  }
}

/** Compares sort keys, which are made when the first value is tested. */
function amongKeys(values: readonly JsonValue[]): ReadyTest {
  if (values.length === 0) return () => false
  let keys: ReadonlySet<string> | undefined
  return (text, at) => {
    keys ??= new Set(values.map((value) => collationKey(value).toString('latin1')))
    return keys.has(keyText(text, at))
  }
}

function keyText(text: Buffer, at: number): string {
  const { bytes, length } = sortKeyAt(text, at)
  return Buffer.from(bytes.buffer, bytes.byteOffset, length).toString('latin1')
}

/** How many elements an array has, counted up to a number. */
function lengthUpTo(text: Buffer, at: number, most: number): number {
  let length = 0
  someElement(text, at, () => ++length >= most)
  return length
}

const INTEGER = /^-?\d+$/

function remainder([divisor, expected]: readonly [number, number]): ReadyTest {
  return (text, at) => {
    if (typeAt(text, at) !== 'number') return false
    const digits = text.toString('latin1', at, endOfValue(text, at))
    spend(digits.length * WORK_A_DIGIT)
    return INTEGER.test(digits) && BigInt(digits) % BigInt(divisor) === BigInt(expected)
  }
}

function pattern(source: string): ReadyTest {
  const compiled = linearPattern(source)
  if (!compiled) throw badArgument('$regex', source)
  return (text, at) => typeAt(text, at) === 'string' && compiled.test(stringAt(text, at))
}

/** Here values are equal where they are the same, not where they sort alike. */
function holdingAll(values: readonly JsonValue[]): ReadyTest {
  if (values.length === 0) return () => false
  const wanted = new Set(values.map((value) => JSON.stringify(value)))
  const types = new Set([...wanted].map((each) => typeAt(Buffer.from(each), 0)))
  const [first] = values
  const whole = values.length === 1 && Array.isArray(first) ? JSON.stringify(first) : undefined
  return (text, at) => {
    if (typeAt(text, at) !== 'array') return false
    spend((endOfValue(text, at) - at) * WORK_A_COLLATED_BYTE)
    if (lengthUpTo(text, at, wanted.size) < wanted.size) return whole !== undefined && canonical(text, at) === whole
    const left = new Set(wanted)
    const hasAll = someElement(text, at, (element) => {
      if (types.has(typeAt(text, element))) left.delete(canonical(text, element))
      return left.size === 0
    })
    return hasAll || (whole !== undefined && canonical(text, at) === whole)
  }
}

/** However numbers and strings are written. */
function canonical(text: Buffer, at: number): string {
  const type = typeAt(text, at)
  if (type === 'number') return JSON.stringify(numberAt(text, at))
  return JSON.stringify(type === 'string' ? stringAt(text, at) : valueAt(text, at))
}
