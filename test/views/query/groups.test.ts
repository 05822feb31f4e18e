/** Groups that are longer than what is read at a time: what they cost, and where they must be read all the same. */
import { describe, expect, it } from 'vitest'
import type { JsonValue } from '../../../src/encoding/json/json-value.ts'
import { MemoryEngine } from '../../../src/storage/memory/memory-engine.ts'
import { planQuery } from '../../../src/views/query/query-plan.ts'
import { ReducedRows } from '../../../src/views/query/reduced-rows.ts'
import { jsonParameter } from '../../../src/views/query/view-parameters.ts'
import { native } from '../../../src/views/reductions/reduction.ts'
import { sum } from '../../../src/views/reductions/sum.ts'
import { memoryView } from './memory-view.ts'
import { type NaiveParameters, type NaiveRow, naiveQuery } from './naive-query.ts'

function rowsOf(count: number, keyOf: (number: number) => JsonValue): NaiveRow[] {
  return Array.from({ length: count }, (_, n) => ({ id: String(n).padStart(5, '0'), key: keyOf(n), value: n }))
}

function total(rows: readonly NaiveRow[]): number {
  return rows.reduce((sum, { value }) => sum + Number(value), 0)
}

async function ask(rows: readonly NaiveRow[], parameters: NaiveParameters) {
  const [answer] = await askAgain(rows, [parameters])
  return answer!
}

/** Several queries of one view, one after the other. */
async function askAgain(rows: readonly NaiveRow[], queries: readonly NaiveParameters[]) {
  const engine = new MemoryEngine()
  const view = await memoryView(rows, { reduction: native(sum), engine })
  const answers: { rows: { key: unknown; value: unknown }[]; roundTrips: number }[] = []
  for (const parameters of queries) {
    const plan = planQuery(
      Object.entries(parameters).map(([name, value]) => jsonParameter(name, value)),
      {},
      { hasReduce: true, partitioning: 'none' },
    )
    const before = engine.roundTrips.count
    const texts: string[] = []
    for await (const block of new ReducedRows(view, plan).blocks()) texts.push(...block)
    answers.push({ rows: texts.map((text) => JSON.parse(text)), roundTrips: engine.roundTrips.count - before })
  }
  return answers
}

async function expectNaive(rows: readonly NaiveRow[], parameters: NaiveParameters): Promise<void> {
  const expected = naiveQuery({ rows, reduce: total }, parameters)
  expect((await ask(rows, parameters)).rows).toEqual(expected.rows)
}

const DIRECTIONS = [false, true]

describe('groups of a reduced query', () => {
  it.each(DIRECTIONS)('are kept apart where different keys collate equal, descending: %s', async (descending) => {
    for (const run of [1, 3, 40]) {
      const rows = rowsOf(400, (n) => (Math.floor(n / run) % 2 === 0 ? '\u00e1' : 'a\u0301'))
      await expectNaive(rows, { group: true, descending })
      await expectNaive(rows, { group: true, descending, keys: ['b', '\u00e1', 'a'] })
    }
  })

  it.each(DIRECTIONS)('may have thousands of rows among which others could lie, descending: %s', async (descending) => {
    const rows = rowsOf(3_000, (n) => (n < 2_900 ? 'b\u0000' : n === 2_950 ? 'b' : ['b\u0001']))
    await expectNaive(rows, { group: true, descending })
    await expectNaive(rows, { group_level: 1, descending, skip: 1 })
  })

  it.each(DIRECTIONS)('may have keys longer than the store keeps in order, descending: %s', async (descending) => {
    const long = 'x'.repeat(3_000)
    const rows = rowsOf(300, (n) => [n % 3, n % 2 === 0 ? long : 'short'])
    await expectNaive(rows, { group_level: 1, descending })
    const { rows: groups } = await ask(rows, { group_level: 2, descending })
    expect(groups).toHaveLength(6)
    await expectNaive(rows, { group_level: 2, descending })
  })

  it('are as many as the elements of keys that count say', async () => {
    const rows = rowsOf(900, (n) => [`g${n % 3}`, [n % 2, '],"'], n])
    await expectNaive(rows, { group_level: 1 })
    await expectNaive(rows, { group_level: 2 })
    await expectNaive(rows, { group_level: 2, startkey: ['g0', [1, 'a'], 300], endkey: ['g2', [0, 'z'], 500] })
    await expectNaive(rows, { group_level: 3, limit: 10, skip: 700 })
  })

  it('cost a logarithm each, however many rows they have', async () => {
    const few = await ask(
      rowsOf(400, (n) => [n % 4, n]),
      { group_level: 1 },
    )
    const many = await ask(
      rowsOf(40_000, (n) => [n % 4, n]),
      { group_level: 1 },
    )
    expect(many.rows.map(({ key }) => key)).toEqual([[0], [1], [2], [3]])
    expect(many.roundTrips).toBeLessThan(few.roundTrips + 60)
    const whole = await ask(
      rowsOf(40_000, (n) => n),
      { startkey: 17, endkey: 39_990 },
    )
    expect(whole.rows).toEqual([{ key: null, value: (39_990 * 39_991) / 2 - (16 * 17) / 2 }])
    expect(whole.roundTrips).toBeLessThan(40)
  })
  it.each(DIRECTIONS)(
    'are gone over with a read each, and with few once the tree is known, descending: %s',
    async (descending) => {
      const rows = rowsOf(40_000, (n) => [n % 100, n])
      const query = { group_level: 1, descending }
      const [first, second] = await askAgain(rows, [query, query])
      expect(first?.rows).toEqual(naiveQuery({ rows, reduce: total }, query).rows)
      expect(second?.rows).toEqual(first?.rows)
      expect(first?.roundTrips).toBeLessThan(800)
      expect(second?.roundTrips).toBeLessThan(150)
    },
  )
})
