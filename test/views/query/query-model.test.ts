/** Queries over any rows against the slow and obvious way to answer them. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { RowBlock } from '../../../src/database/listing/listed-rows.ts'
import type { JsonValue } from '../../../src/encoding/json/json-value.ts'
import { MapRows } from '../../../src/views/query/map-rows.ts'
import { planQuery } from '../../../src/views/query/query-plan.ts'
import { ReducedRows } from '../../../src/views/query/reduced-rows.ts'
import { replyChunks, textsOf } from '../../../src/views/query/row-query.ts'
import { jsonParameter } from '../../../src/views/query/view-parameters.ts'
import type { OpenView } from '../../../src/views/reading/open-index.ts'
import { count, first } from '../../../src/views/reductions/named-reduction.ts'
import { native, type Reduction } from '../../../src/views/reductions/reduction.ts'
import { sum } from '../../../src/views/reductions/sum.ts'
import { memoryView } from './memory-view.ts'
import { type NaiveParameters, type NaiveRow, naiveQuery } from './naive-query.ts'
import { anyId, fewKeys, fewOrLongKeys, parametersFor, reducedParametersFor } from './query-arbitraries.ts'

type Keys = fc.Arbitrary<JsonValue[]>

function rowsOf(keys: Keys): fc.Arbitrary<NaiveRow[]> {
  const row = fc.tuple(fc.nat(), anyId, fc.nat({ max: 3 }), fc.nat({ max: 99 }))
  return fc.tuple(keys, fc.array(row, { maxLength: 150, size: 'max' })).map(([some, drawn]) =>
    drawn.map(([which, prefix, value, suffix]) => ({
      id: `${prefix}${suffix}`,
      key: some[which % some.length] ?? null,
      value,
    })),
  )
}

async function ask(view: OpenView, parameters: NaiveParameters): Promise<unknown> {
  const given = Object.entries(parameters).map(([name, value]) => jsonParameter(name, value))
  const plan = planQuery(given, {}, { hasReduce: view.reduce !== undefined, partitioning: 'none' })
  if (plan.isReduced) return whole({}, new ReducedRows(view, plan).blocks())
  const { total, offset, blocks } = await new MapRows(view, plan).place()
  const reply = await whole({ total_rows: total, offset }, blocks())
  // The same rows, for those who want them one by one.
  const texts: string[] = []
  const again = await new MapRows(view, plan).place()
  for await (const block of again.blocks()) texts.push(...(await textsOf(block)))
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

const collations = fc.constantFrom<'raw' | 'unicode'>('raw', 'unicode')
const SEVERAL = { minLength: 1, maxLength: 6 }

/** Rows, their order, and what is asked of them. */
function drawn(keys: Keys, parameters: (rows: readonly NaiveRow[]) => fc.Arbitrary<NaiveParameters>) {
  return fc.tuple(rowsOf(keys), collations).chain(([some, collation]) =>
    fc.record({
      some: fc.constant(some),
      collation: fc.constant(collation),
      asked: fc.array(parameters(some), SEVERAL),
    }),
  )
}

describe('any query of any rows', () => {
  it('answers with the rows of a map view, their number and their place', async () => {
    await fc.assert(
      fc.asyncProperty(drawn(fewOrLongKeys, parametersFor), async ({ some, collation, asked }) => {
        const view = await memoryView(some, { collation })
        for (const parameters of asked) {
          const expected = naiveQuery({ rows: some, collation }, parameters)
          expect(await ask(view, parameters), JSON.stringify(parameters)).toEqual(expected)
        }
      }),
      { numRuns: 100 },
    )
  })

  const reductions: [name: string, Reduction, Keys, (rows: readonly NaiveRow[]) => JsonValue][] = [
    ['a sum', native(sum), fewOrLongKeys, (some) => some.reduce((total, { value }) => total + Number(value), 0)],
    ['a count', native(count), fewOrLongKeys, (some) => some.length],
    // What the tree holds of very long keys is in the order of the store.
    ['the first of each', native(first), fewKeys, (some) => some[0]?.value ?? null],
  ]

  it.each(reductions)('answers with %s, of all or of groups', async (_, reduction, keys, reduce) => {
    await fc.assert(
      fc.asyncProperty(drawn(keys, reducedParametersFor), async ({ some, collation, asked }) => {
        const view = await memoryView(some, { collation, reduction })
        for (const parameters of asked) {
          const expected = naiveQuery({ rows: some, collation, reduce }, parameters)
          expect(await ask(view, parameters), JSON.stringify(parameters)).toEqual(expected)
        }
      }),
      { numRuns: 60 },
    )
  })
})
