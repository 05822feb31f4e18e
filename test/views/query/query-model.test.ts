/** Queries over any rows against the slow and obvious way to answer them. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { JsonValue } from '../../../src/encoding/json-value.ts'
import type { OpenView } from '../../../src/views/open-index.ts'
import { MapRows } from '../../../src/views/query/map-rows.ts'
import { planQuery } from '../../../src/views/query/query-plan.ts'
import { ReducedRows } from '../../../src/views/query/reduced-rows.ts'
import { replyChunks } from '../../../src/views/query/reply-text.ts'
import { type RowBlock, textsOf } from '../../../src/views/query/row-block.ts'
import { jsonParameter } from '../../../src/views/query/view-parameters.ts'
import { count } from '../../../src/views/reductions/count.ts'
import { first } from '../../../src/views/reductions/edge-value.ts'
import { native, type Reduction } from '../../../src/views/reductions/reduction.ts'
import { sum } from '../../../src/views/reductions/sum.ts'
import { memoryView } from './memory-view.ts'
import { type NaiveParameters, type NaiveRow, naiveQuery } from './naive-query.ts'

/** Some that collate equal and differ, and some that only look so. */
const text = fc.constantFrom('', 'a', 'A', 'á', 'a\u0301', 'b', 'b\u0000', 'b\u0001', 'ab', '"[,]{}\\', '\uffff')
const scalar = fc.oneof(fc.constantFrom(null, false, true, 0, 1, -1.5, 1e21), text)
const key: fc.Arbitrary<JsonValue> = fc.oneof(
  { weight: 3, arbitrary: scalar },
  { weight: 4, arbitrary: fc.array(fc.oneof(scalar, fc.array(scalar, { maxLength: 2 })), { maxLength: 3 }) },
  { weight: 1, arbitrary: fc.dictionary(text, scalar, { maxKeys: 2 }) },
)
const id = fc.constantFrom('a', 'b', 'B', 'é', 'a b', 'a\u0000', 'a\u0000b', '中', '\u{1f600}')

/** Few different keys, so that groups have many rows, some more than a page. */
const rows: fc.Arbitrary<NaiveRow[]> = fc
  .tuple(
    fc.oneof(
      { weight: 3, arbitrary: fc.uniqueArray(key, { minLength: 1, maxLength: 6, selector: JSON.stringify }) },
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
    ),
    fc.array(fc.tuple(fc.nat(), id, fc.nat({ max: 3 }), fc.nat({ max: 99 })), { maxLength: 150, size: 'max' }),
  )
  .map(([keys, drawn]) =>
    drawn.map(([which, prefix, number, suffix]) => ({
      id: `${prefix}${suffix}`,
      key: keys[which % keys.length]!,
      value: number,
    })),
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
function parametersFor(rows: readonly NaiveRow[]): fc.Arbitrary<NaiveParameters> {
  const known = rows.length > 0 ? fc.constantFrom(...rows.map((row) => row.key)) : key
  const bound = fc.oneof({ weight: 3, arbitrary: known }, { weight: 1, arbitrary: key })
  const boundId = rows.length > 0 ? fc.constantFrom(...rows.map((row) => row.id), 'a') : id
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

async function ask(view: OpenView, parameters: NaiveParameters): Promise<unknown> {
  const given = Object.entries(parameters).map(([name, value]) => jsonParameter(name, value))
  const plan = planQuery(given, {}, { hasReduce: view.reduce !== undefined })
  if (plan.isReduced) return whole({}, new ReducedRows(view, plan).blocks())
  const total = await view.ranks.total(view.snapshot)
  const { offset, blocks } = await new MapRows(view, plan, total).place()
  const reply = await whole({ total_rows: total, offset }, blocks())
  // The same rows, for those who want them one by one.
  const texts: string[] = []
  for await (const block of blocks()) texts.push(...(await textsOf(block)))
  expect(texts.map((each) => JSON.parse(each))).toEqual(reply.rows)
  return reply
}

async function whole(head: object, blocks: AsyncIterable<RowBlock>): Promise<{ rows: unknown[] }> {
  let reply = ''
  for await (const chunk of replyChunks(head, blocks)) reply += chunk.toString()
  expect(reply).toMatch(/^\{.*"rows":\[\r\n/)
  expect(reply.endsWith('\r\n]}\n')).toBe(true)
  return JSON.parse(reply)
}

describe('any query of any rows', () => {
  const collation = fc.constantFrom<'raw' | 'unicode'>('raw', 'unicode')

  it('answers with the rows of a map view, their number and their place', async () => {
    const drawn = fc.tuple(rows, collation).chain(([some, order]) =>
      fc.record({
        some: fc.constant(some),
        order: fc.constant(order),
        asked: fc.array(parametersFor(some), SEVERAL),
      }),
    )
    await fc.assert(
      fc.asyncProperty(drawn, async ({ some, order, asked }) => {
        const view = await memoryView(some, { collation: order })
        for (const parameters of asked) {
          const expected = naiveQuery({ rows: some, collation: order }, parameters)
          expect(await ask(view, parameters), JSON.stringify(parameters)).toEqual(expected)
        }
      }),
      { numRuns: 150 },
    )
  })

  const reductions: [name: string, Reduction, (rows: readonly NaiveRow[]) => JsonValue][] = [
    ['a sum', native(sum), (some) => some.reduce((total, { value }) => total + Number(value), 0)],
    ['a count', native(count), (some) => some.length],
    ['the first of each', native(first), (some) => some[0]?.value ?? null],
  ]

  it.each(reductions)('answers with %s, of all or of groups', async (_, reduction, reduce) => {
    const grouping = fc.oneof(
      fc.constant<NaiveParameters>({}),
      fc.constant<NaiveParameters>({ group: true }),
      fc.nat({ max: 3 }).map((level): NaiveParameters => ({ group_level: level })),
      fc.constant<NaiveParameters>({ reduce: false }),
    )
    const drawn = fc.tuple(rows, collation).chain(([some, order]) =>
      fc.record({
        some: fc.constant(some),
        order: fc.constant(order),
        asked: fc.array(fc.tuple(parametersFor(some), grouping), SEVERAL),
      }),
    )
    await fc.assert(
      fc.asyncProperty(drawn, async ({ some, order, asked }) => {
        const view = await memoryView(some, { collation: order, reduction })
        for (const [parameters, groups] of asked) {
          const all = { ...parameters, ...(parameters.keys && groups.reduce !== false ? { group: true } : groups) }
          const expected = naiveQuery({ rows: some, collation: order, reduce }, all)
          expect(await ask(view, all), JSON.stringify(all)).toEqual(expected)
        }
      }),
      { numRuns: 100 },
    )
  })
})

const SEVERAL = { minLength: 1, maxLength: 6 }
