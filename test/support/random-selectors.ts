/** Documents and selectors over few fields and values, so that many of them match: for tests against a model. */
import fc from 'fast-check'
import type { Json } from './naive-selector.ts'

const TEXTS = ['', 'a', 'A', 'ab', 'b', 'B', 'é', 'e', 'z"q', 'a b', '10', '9', 'x\\y', '中']
export const FIELDS = ['a', 'b', 'c', 'd'] as const

const scalar: fc.Arbitrary<Json> = fc.oneof(
  fc.constantFrom<Json>(null, true, false),
  fc.constantFrom<Json>(-3, -1, 0, 1, 2, 2.5, 3, 10, 1e21, 4),
  fc.constantFrom<Json>(...TEXTS),
)

export const smallValue: fc.Arbitrary<Json> = fc.oneof(
  { weight: 6, arbitrary: scalar },
  { weight: 2, arbitrary: fc.array(scalar, { maxLength: 3 }) },
  {
    weight: 2,
    arbitrary: fc.dictionary(fc.constantFrom('a', 'b', 'x y'), scalar, { maxKeys: 2, noNullPrototype: true }),
  },
  {
    weight: 1,
    arbitrary: fc.array(fc.dictionary(fc.constantFrom('a', 'b'), scalar, { maxKeys: 2, noNullPrototype: true }), {
      maxLength: 2,
    }),
  },
)

export const smallDocument: fc.Arbitrary<Record<string, Json>> = fc.dictionary(fc.constantFrom(...FIELDS), smallValue, {
  maxKeys: 4,
  noNullPrototype: true,
})

const fieldName = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom<string>(...FIELDS) },
  { weight: 1, arbitrary: fc.constantFrom('a.a', 'b.a', 'a.0', 'a.b', 'c.1.a') },
  { weight: 1, arbitrary: fc.constant('_id') },
)

/** Conditions on a value: an operator with its argument. */
function operators(inner: fc.Arbitrary<Json>): fc.Arbitrary<Json> {
  const one = (name: string, argument: fc.Arbitrary<Json>) => argument.map((value): Json => ({ [name]: value }))
  return fc.oneof(
    ...['$lt', '$lte', '$eq', '$ne', '$gte', '$gt'].map((name) => ({ weight: 3, arbitrary: one(name, smallValue) })),
    { weight: 2, arbitrary: one('$in', fc.array(smallValue, { maxLength: 6 })) },
    { weight: 1, arbitrary: one('$nin', fc.array(smallValue, { maxLength: 6 })) },
    { weight: 2, arbitrary: one('$exists', fc.boolean()) },
    {
      weight: 1,
      arbitrary: one('$type', fc.constantFrom('null', 'boolean', 'number', 'string', 'array', 'object', 'odd')),
    },
    { weight: 1, arbitrary: one('$size', fc.nat({ max: 3 })) },
    { weight: 1, arbitrary: one('$mod', fc.constantFrom<Json>([2, 0], [3, 1], [-2, 1], [2, -1])) },
    { weight: 1, arbitrary: one('$regex', fc.constantFrom('^a', 'b', '^(a|e)+$', '[A-Z]', '\\d{2}', '^.?$')) },
    { weight: 1, arbitrary: one('$beginsWith', fc.constantFrom(...TEXTS)) },
    { weight: 1, arbitrary: one('$all', fc.array(smallValue, { maxLength: 2 })) },
    { weight: 1, arbitrary: one('$elemMatch', inner) },
    { weight: 1, arbitrary: one('$allMatch', inner) },
    { weight: 1, arbitrary: one('$keyMapMatch', fc.constantFrom<Json>({ $eq: 'a' }, { $regex: ' ' }, { $gt: 'a' })) },
  )
}

const onValue = operators(
  fc.oneof(
    smallValue.map((value): Json => ({ $gt: value })),
    fc.constant<Json>({ a: { $exists: true } }),
    fc.constant<Json>({}),
  ),
)

const onField: fc.Arbitrary<Json> = fc
  .tuple(
    fieldName,
    fc.oneof(
      { weight: 4, arbitrary: onValue },
      { weight: 1, arbitrary: scalar },
      {
        weight: 1,
        arbitrary: onValue.map((condition): Json => ({ $not: condition })),
      },
    ),
  )
  .map(([name, condition]): Json => ({ [name]: condition }))

export const smallSelector: fc.Arbitrary<Record<string, Json>> = fc
  .letrec<{ selector: Json; list: Json }>((tie) => ({
    list: fc.array(tie('selector'), { minLength: 1, maxLength: 3 }),
    selector: fc.oneof(
      { maxDepth: 2, depthSize: 'small' },
      { weight: 4, arbitrary: onField },
      {
        weight: 2,
        arbitrary: fc.tuple(onField, onField).map(([a, b]): Json => ({ ...(a as object), ...(b as object) }) as Json),
      },
      { weight: 1, arbitrary: tie('list').map((parts): Json => ({ $and: parts })) },
      { weight: 1, arbitrary: tie('list').map((parts): Json => ({ $or: parts })) },
      { weight: 1, arbitrary: tie('list').map((parts): Json => ({ $nor: parts })) },
      { weight: 1, arbitrary: tie('selector').map((part): Json => ({ $not: part })) },
    ),
  }))
  .selector.map((selector) => selector as Record<string, Json>)
