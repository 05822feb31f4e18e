/** What it costs to find rows of a map view, whatever its size. */
import { describe, expect, it } from 'vitest'
import { MemoryEngine } from '../../../src/storage/memory/memory-engine.ts'
import { MapRows } from '../../../src/views/query/map-rows.ts'
import { planQuery } from '../../../src/views/query/query-plan.ts'
import { textsOf } from '../../../src/views/query/row-query.ts'
import { jsonParameter } from '../../../src/views/query/view-parameters.ts'
import { native } from '../../../src/views/reductions/reduction.ts'
import { sum } from '../../../src/views/reductions/sum.ts'
import { memoryView } from './memory-view.ts'
import type { NaiveParameters } from './naive-query.ts'

const ROWS = 30_000

/** With reductions the tree is another one. */
describe.each([true, false])('round trips on 30,000 rows, with a reduce function: %s', (isReduced) => {
  const engine = new MemoryEngine()
  const opening = memoryView(
    Array.from({ length: ROWS }, (_, n) => ({ id: `d${n}`, key: n, value: 1 })),
    { engine, ...(isReduced && { reduction: native(sum) }) },
  )

  async function ask(parameters: NaiveParameters) {
    const view = await opening
    const given = Object.entries({ ...parameters, reduce: false }).map(([name, value]) => jsonParameter(name, value))
    const plan = planQuery(given, {}, { hasReduce: isReduced, partitioning: 'none' })
    const before = engine.roundTrips.count
    const { total, offset, blocks } = await new MapRows(view, plan).place()
    const ids: unknown[] = []
    for await (const block of blocks()) for (const text of await textsOf(block)) ids.push(JSON.parse(text).key)
    return { total, offset, ids, roundTrips: engine.roundTrips.count - before }
  }

  it('are few for one key, once the tree is known', async () => {
    await ask({ key: 20_000 })
    const { roundTrips, ...answer } = await ask({ key: 20_000 })
    expect(answer).toEqual({ total: ROWS, offset: 20_000, ids: [20_000] })
    expect(roundTrips).toBeLessThanOrEqual(6)
  })

  it.each<[string, NaiveParameters, number[]]>([
    ['a deep skip', { skip: 25_000, limit: 2 }, [25_000, 25_001]],
    ['a deep skip from the other end', { skip: 25_000, limit: 2, descending: true }, [4_999, 4_998]],
    ['a skip within a range', { startkey: 100, endkey: 29_000, skip: 20_000, limit: 1 }, [20_100]],
    ['a range of the other direction', { startkey: 15_000, descending: true, limit: 2 }, [15_000, 14_999]],
  ])('are few for %s', async (_, parameters, ids) => {
    const answer = await ask(parameters)
    expect(answer.ids).toEqual(ids)
    expect(answer.roundTrips).toBeLessThanOrEqual(30)
  })
})
