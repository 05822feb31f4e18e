/** Keys, ids and parameters of queries, drawn so that equal, nearly equal and awkward ones come up often. */
import fc from 'fast-check'
import type { JsonValue } from '../../../src/encoding/json/json-value.ts'
import type { NaiveParameters, NaiveRow } from './naive-query.ts'

/** Some that collate equal and differ, and some that only look so. */
const text = fc.constantFrom('', 'a', 'A', 'á', 'a\u0301', 'b', 'b\u0000', 'b\u0001', 'ab', '"[,]{}\\', '\uffff')
const scalar = fc.oneof(fc.constantFrom(null, false, true, 0, 1, -1.5, 1e21), text)

export const anyKey: fc.Arbitrary<JsonValue> = fc.oneof(
  { weight: 3, arbitrary: scalar },
  { weight: 4, arbitrary: fc.array(fc.oneof(scalar, fc.array(scalar, { maxLength: 2 })), { maxLength: 3 }) },
  { weight: 1, arbitrary: fc.dictionary(text, scalar, { maxKeys: 2 }) },
)

export const anyId = fc.constantFrom('a', 'b', 'B', 'é', 'a b', 'a\u0000', 'a\u0000b', '中', '\u{1f600}')

/** Few different ones, so that groups have many rows. */
export const fewKeys: fc.Arbitrary<JsonValue[]> = fc.oneof(
  { weight: 3, arbitrary: fc.uniqueArray(anyKey, { minLength: 1, maxLength: 6, selector: JSON.stringify }) },
  {
    weight: 1,
    arbitrary: fc.constantFrom<JsonValue[]>(
      ['á', 'a\u0301'],
      [
        ['b', 1],
        ['b\u0000', 1],
        ['b', 2],
      ],
    ),
  },
)

/** More than the store can order by itself; some collate equal, and some are arrays that begin alike. */
const LONG = 'x'.repeat(2_500)
const LONG_KEYS: JsonValue[] = [
  LONG,
  `${LONG}a`,
  `${LONG}A`,
  `${LONG}a\u0000`,
  [LONG, 1],
  [LONG, 2],
  [`${LONG}b`, 1],
  'x'.repeat(1_975),
  'y',
]

export const fewOrLongKeys = fc.oneof(
  { weight: 9, arbitrary: fewKeys },
  { weight: 1, arbitrary: fc.subarray(LONG_KEYS, { minLength: 2 }) },
)

const optional = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { nil: undefined, freq: 2 })

interface Drawn {
  ends: 'none' | 'range' | 'key' | 'keys'
  start: JsonValue | undefined
  end: JsonValue | undefined
  keys: JsonValue[]
  rest: NaiveParameters
}

/** Bounds are mostly keys that there are. */
export function parametersFor(rows: readonly NaiveRow[]): fc.Arbitrary<NaiveParameters> {
  const known = rows.length > 0 ? fc.constantFrom(...rows.map(({ key }) => key)) : anyKey
  const bound = fc.oneof({ weight: 3, arbitrary: known }, { weight: 1, arbitrary: anyKey })
  const boundId = rows.length > 0 ? fc.constantFrom(...rows.map(({ id }) => id), 'a') : anyId
  return fc
    .record<Drawn>({
      ends: fc.constantFrom('none', 'range', 'key', 'keys'),
      start: optional(bound),
      end: optional(bound),
      keys: fc.array(bound, { maxLength: 5 }),
      rest: fc.record<NaiveParameters>(
        {
          startkey_docid: boundId,
          endkey_docid: boundId,
          inclusive_end: fc.boolean(),
          descending: fc.boolean(),
          skip: fc.oneof(fc.nat({ max: 3 }), fc.nat({ max: 160 })),
          limit: fc.oneof(fc.nat({ max: 3 }), fc.nat({ max: 160 })),
        },
        { requiredKeys: [] },
      ),
    })
    .map(({ ends, start, end, keys, rest }) => {
      if (ends === 'keys') return { ...rest, keys }
      if (ends === 'key' && start !== undefined) return { ...rest, key: start }
      if (ends !== 'range') return rest
      return { ...rest, ...(start !== undefined && { startkey: start }), ...(end !== undefined && { endkey: end }) }
    })
}

const grouping: fc.Arbitrary<NaiveParameters> = fc.oneof(
  fc.constant({}),
  fc.constant({ group: true }),
  fc.nat({ max: 3 }).map((level) => ({ group_level: level })),
  fc.constant({ reduce: false }),
)

/** For a view with a reduce function, where keys go with groups only. */
export function reducedParametersFor(rows: readonly NaiveRow[]): fc.Arbitrary<NaiveParameters> {
  return fc
    .tuple(parametersFor(rows), grouping)
    .map(([parameters, groups]) =>
      parameters.keys && groups.reduce !== false ? { ...parameters, group: true } : { ...parameters, ...groups },
    )
}
