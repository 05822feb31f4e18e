/**
 * A selector in its normal form: conditions on single fields, joined by `$and` and `$or`. Negations are pushed inward to
 * the operators, as far as these have an opposite.
 */
import type { JsonValue } from '../encoding/json/json-value.ts'
import type { FieldPath } from './field-path.ts'

export type Condition =
  /** `{}`: every document. */
  | { readonly kind: 'everything' }
  /** `$and` and `$or`; of no parts both are true. */
  | { readonly kind: 'all' | 'any'; readonly parts: readonly Condition[] }
  | FieldCondition

/** True where the field exists and its value passes, or where it is missing and that is what is asked for. */
export interface FieldCondition {
  readonly kind: 'field'
  readonly field: FieldPath
  readonly test: ValueTest
}

export type ValueTest =
  | ComparisonTest
  | { readonly operator: '$in' | '$nin' | '$all'; readonly argument: readonly JsonValue[] }
  | { readonly operator: '$exists'; readonly argument: boolean }
  | { readonly operator: '$type' | '$regex' | '$beginsWith'; readonly argument: string }
  | { readonly operator: '$size'; readonly argument: number }
  | { readonly operator: '$mod'; readonly argument: readonly [divisor: number, remainder: number] }
  | { readonly operator: '$elemMatch' | '$allMatch' | '$keyMapMatch'; readonly argument: Condition }
  | { readonly operator: '$not'; readonly argument: ValueTest }

export interface ComparisonTest {
  readonly operator: ComparisonOperator
  readonly argument: JsonValue
}

export type ComparisonOperator = '$lt' | '$lte' | '$eq' | '$ne' | '$gte' | '$gt'

/** Several conditions that all must hold; one stays as it is. */
export function conjunction(parts: readonly Condition[]): Condition {
  return parts.length === 1 ? parts[0]! : { kind: 'all', parts }
}

/** What holds where the condition does not, except that fields must exist for both. */
export function negated(condition: Condition): Condition {
  if (condition.kind === 'field') return { ...condition, test: negatedTest(condition.test) }
  if (condition.kind === 'everything') return { kind: 'any', parts: [] }
  return { kind: condition.kind === 'all' ? 'any' : 'all', parts: condition.parts.map(negated) }
}

const OPPOSITES = {
  $lt: '$gte',
  $lte: '$gt',
  $eq: '$ne',
  $ne: '$eq',
  $gte: '$lt',
  $gt: '$lte',
} as const

function negatedTest(test: ValueTest): ValueTest {
  switch (test.operator) {
    case '$not':
      return test.argument
    case '$in':
      return { operator: '$nin', argument: test.argument }
    case '$nin':
      return { operator: '$in', argument: test.argument }
    case '$exists':
      return { operator: '$exists', argument: !test.argument }
    case '$lt':
    case '$lte':
    case '$eq':
    case '$ne':
    case '$gte':
    case '$gt':
      return { operator: OPPOSITES[test.operator], argument: test.argument }
    default:
      return { operator: '$not', argument: test }
  }
}

/** The normal form as JSON, as `_explain` shows it and index definitions keep it. */
export function conditionJson(condition: Condition): JsonValue {
  if (condition.kind === 'everything') return {}
  if (condition.kind === 'field') {
    const { field, test } = condition
    return field.name === '' ? testJson(test) : { [field.name]: testJson(test) }
  }
  return { [condition.kind === 'all' ? '$and' : '$or']: condition.parts.map(conditionJson) }
}

function testJson(test: ValueTest): JsonValue {
  if (test.operator === '$not') return { $not: testJson(test.argument) }
  if (hasCondition(test)) return { [test.operator]: conditionJson(test.argument) }
  return { [test.operator]: test.argument }
}

function hasCondition(test: ValueTest): test is Extract<ValueTest, { readonly argument: Condition }> {
  return test.operator === '$elemMatch' || test.operator === '$allMatch' || test.operator === '$keyMapMatch'
}
