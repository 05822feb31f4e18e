/** Reads a selector as a client sends it, checks it, and brings it into its normal form. */
import { isObject, type JsonValue } from '../encoding/json/json-value.ts'
import { type Condition, conjunction, negated, type ValueTest } from './condition.ts'
import { type FieldPath, fieldPath, nestedName, OWN_VALUE } from './field-path.ts'
import { linearPattern } from './pattern/linear-pattern.ts'
import {
  badArgument,
  invalidOperator,
  missingFieldName,
  selectorError,
  shown,
  unsupportedOperator,
} from './selector-error.ts'

/** Throws the error of the interface for what cannot be a selector. */
export function parseSelector(selector: unknown): Condition {
  if (!isObject(selector)) {
    throw selectorError('invalid_selector_json', `Selector must be a JSON object, not: ${shown(selector)}`)
  }
  return conditionOf(selector, { field: undefined, depth: 0, count: { conditions: 0, patterns: 0 } })
}

/** What a condition is read for. */
interface Place {
  /** Undefined at the top of a selector, where a condition must name its field. */
  readonly field: FieldPath | undefined
  readonly depth: number
  /** Of the whole selector, as far as it is read. */
  readonly count: { conditions: number; patterns: number }
}

const DEEPEST_NESTING = 100
/** Each of them is asked of each document. */
const MOST_CONDITIONS = 2500
const MOST_PATTERNS = 100
/** As deep as what sort keys are made of. */
const DEEPEST_VALUE = 900

function conditionOf(value: unknown, place: Place): Condition {
  if (place.depth > DEEPEST_NESTING) {
    throw selectorError('invalid_selector', `A selector is nested deeper than ${DEEPEST_NESTING} levels.`)
  }
  if (!isObject(value)) return leaf(place, { operator: '$eq', argument: jsonValue(value) })
  const members = Object.entries(value)
  if (members.length > 0) return conjunction(members.map(([name, argument]) => memberOf(name, argument, place)))
  // An empty object is a value where it belongs to a field, and no condition at all where a selector stands.
  const isSelector = place.field === undefined || place.field === OWN_VALUE
  return isSelector ? { kind: 'everything' } : leaf(place, { operator: '$eq', argument: {} })
}

function memberOf(name: string, argument: unknown, place: Place): Condition {
  const { field } = place
  const inner = { ...place, depth: place.depth + 1 }
  if (!name.startsWith('$')) {
    return conditionOf(argument, { ...inner, field: fieldPath(field ? nestedName(field, name) : name) })
  }
  switch (name) {
    case '$and':
      return { kind: 'all', parts: listOf(name, argument).map((each) => conditionOf(each, inner)) }
    case '$or':
      return { kind: 'any', parts: listOf(name, argument).map((each) => conditionOf(each, inner)) }
    case '$nor':
      return { kind: 'all', parts: listOf(name, argument).map((each) => negated(conditionOf(each, inner))) }
    case '$not':
      if (!isObject(argument) || (!field && Object.keys(argument).length === 0)) throw badArgument(name, argument)
      return negated(conditionOf(argument, inner))
    default:
      return leaf(place, testOf(name, argument, inner))
  }
}

function leaf({ field, count }: Place, test: ValueTest): Condition {
  if (!field) throw missingFieldName()
  if (++count.conditions > MOST_CONDITIONS) {
    throw selectorError('invalid_selector', `A selector has more than ${MOST_CONDITIONS} conditions.`)
  }
  return { kind: 'field', field, test }
}

const UNSUPPORTED = new Set(['$text', '$where', '$geoWithin', '$geoIntersects', '$near', '$nearSphere'])

function testOf(operator: string, argument: unknown, inner: Place): ValueTest {
  switch (operator) {
    case '$lt':
    case '$lte':
    case '$eq':
    case '$ne':
    case '$gte':
    case '$gt':
      return { operator, argument: jsonValue(argument) }
    case '$in':
    case '$nin':
    case '$all':
      return { operator, argument: listOf(operator, argument).map(jsonValue) }
    case '$exists':
      if (typeof argument !== 'boolean') throw badArgument(operator, argument)
      return { operator, argument }
    case '$type':
      if (typeof argument !== 'string') throw badArgument(operator, argument)
      return { operator, argument }
    case '$size':
      if (!isCount(argument)) throw badArgument(operator, argument)
      return { operator, argument }
    case '$mod':
      return { operator, argument: divisionOf(argument) }
    case '$beginsWith':
      if (typeof argument !== 'string') throw invalidOperator(operator)
      return { operator, argument }
    case '$regex':
      if (typeof argument !== 'string') throw invalidOperator(operator)
      if (++inner.count.patterns > MOST_PATTERNS) {
        throw selectorError('invalid_selector', `A selector has more than ${MOST_PATTERNS} regular expressions.`)
      }
      if (!linearPattern(argument)) throw badArgument(operator, argument)
      return { operator, argument }
    case '$elemMatch':
    case '$allMatch':
    case '$keyMapMatch':
      if (!isObject(argument)) throw badArgument(operator, argument)
      return { operator, argument: conditionOf(argument, { ...inner, field: OWN_VALUE }) }
    default:
      throw UNSUPPORTED.has(operator) ? unsupportedOperator(operator) : invalidOperator(operator)
  }
}

function listOf(operator: string, argument: unknown): readonly unknown[] {
  if (!Array.isArray(argument)) throw badArgument(operator, argument)
  return argument
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && Number(value) >= 0
}

function divisionOf(argument: unknown): readonly [number, number] {
  const [divisor, remainder, ...others]: unknown[] = Array.isArray(argument) ? argument : []
  if (!Number.isSafeInteger(divisor) || !Number.isSafeInteger(remainder) || divisor === 0 || others.length > 0) {
    throw badArgument('$mod', argument)
  }
  return [Number(divisor), Number(remainder)]
}

/** What comes out of parsed JSON is nothing else. */
function jsonValue(value: unknown): JsonValue {
  if (value === undefined || !isJson(value)) throw new TypeError('A selector holds what is no JSON value.')
  if (isDeeper(value, DEEPEST_VALUE)) {
    throw selectorError('invalid_selector', `A value of a selector is nested deeper than ${DEEPEST_VALUE} levels.`)
  }
  return value
}

function isDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false
  return levels === 0 || Object.values(value).some((each) => isDeeper(each, levels - 1))
}

function isJson(value: unknown): value is JsonValue {
  return typeof value !== 'function' && typeof value !== 'symbol' && typeof value !== 'bigint'
}
