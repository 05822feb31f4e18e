/** `reduce` and `group` in `_find`: counts and sums out of an index, against those of the documents. */
import { describe, expect, it } from 'vitest'
import { expectRefusal, serverOfFile, type TestDatabase } from '../../support/client.ts'

const client = serverOfFile()

interface Sale {
  _id: string
  year: number
  city: string
  amount: unknown
}

const CITIES = ['Oslo', 'Rome', 'oslo', 'Bergen']
const SALES: Sale[] = Array.from({ length: 600 }, (_, i) => ({
  _id: `s${i}`,
  year: 2020 + (i % 5),
  city: CITIES[i % 4]!,
  amount: i % 7 === 0 ? 'none' : (i * 13) % 101,
}))

async function sales(): Promise<TestDatabase> {
  const db = await client().database()
  await db.post('_bulk_docs', { docs: SALES })
  await db.post('_index', { index: { fields: ['year', 'city'], reduce: 'amount' }, ddoc: 'sales', name: 'by-year' })
  await db.post('_index', { index: { fields: ['city'] }, ddoc: 'cities', name: 'by-city' })
  return db
}

async function groups(db: TestDatabase, query: object): Promise<{ key: unknown[]; value: unknown }[]> {
  const reply = await db.post('_find', query)
  expect(reply.status, reply.text).toBe(200)
  return reply.as<{ groups: { key: unknown[]; value: unknown }[] }>().groups
}

function numbersOf(some: readonly Sale[]): number[] {
  return some.map(({ amount }) => amount).filter((amount) => typeof amount === 'number')
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((a, b) => a + b, 0)
}

const EVERYWHERE = { city: { $exists: true } }

describe('groups of a query', () => {
  it('are counted and summed up', async () => {
    const db = await sales()
    const years = [2020, 2021, 2022, 2023, 2024]
    const selector = { year: { $gt: 0 }, ...EVERYWHERE }
    const ofYear = (year: number) => SALES.filter((sale) => sale.year === year)
    expect(await groups(db, { selector, reduce: '_count', group: ['year'] })).toEqual(
      years.map((year) => ({ key: [year], value: ofYear(year).length })),
    )
    expect(await groups(db, { selector, reduce: { _sum: 'amount' }, group: ['year'] })).toEqual(
      years.map((year) => ({ key: [year], value: sum(numbersOf(ofYear(year))) })),
    )
    const statistics = await groups(db, { selector, reduce: { _stats: 'amount' }, group: ['year'], skip: 1, limit: 1 })
    const numbers = numbersOf(ofYear(2021))
    expect(statistics).toEqual([
      {
        key: [2021],
        value: {
          sum: sum(numbers),
          count: numbers.length,
          min: Math.min(...numbers),
          max: Math.max(...numbers),
          sumsqr: sum(numbers.map((n) => n * n)),
        },
      },
    ])
  })

  it('may follow fixed fields, and be in several ranges', async () => {
    const db = await sales()
    const count = (test: (sale: Sale) => boolean) => SALES.filter(test).length
    expect(await groups(db, { selector: { year: 2021, ...EVERYWHERE }, reduce: '_count', group: ['city'] })).toEqual(
      ['Bergen', 'oslo', 'Oslo', 'Rome'].map((city) => ({
        key: [city],
        value: count((sale) => sale.year === 2021 && sale.city === city),
      })),
    )
    const some = { year: { $in: [2020, 2023] }, ...EVERYWHERE }
    expect(await groups(db, { selector: some, reduce: '_count', group: ['year'] })).toEqual(
      [2020, 2023].map((year) => ({ key: [year], value: count((sale) => sale.year === year) })),
    )
    expect(await groups(db, { selector: some, reduce: '_count', group: ['year', 'city'] })).toHaveLength(8)
    const either = { $or: [{ city: 'Oslo' }, { city: { $gt: 'P' } }] }
    expect(await groups(db, { selector: either, reduce: '_count' })).toEqual([
      { key: [], value: count(({ city }) => city === 'Oslo' || city === 'Rome') },
    ])
  })

  it('follow changes', async () => {
    const db = await sales()
    const query = { selector: { year: 2020, ...EVERYWHERE }, reduce: { _sum: 'amount' } }
    const [before] = await groups(db, query)
    await db.save('more', { year: 2020, city: 'Turin', amount: 1000.5 })
    expect(await groups(db, query)).toEqual([{ key: [], value: Number(before?.value) + 1000.5 }])
    expect(await groups(db, { ...query, selector: { year: 1900, ...EVERYWHERE } })).toEqual([{ key: [], value: 0 }])
    expect(await groups(db, { ...query, selector: { year: 1900, ...EVERYWHERE }, group: ['city'] })).toEqual([])
  })

  it('are refused when no index covers them', async () => {
    const db = await sales()
    const refused = async (query: object, error: string, reason: string) =>
      expectRefusal(await db.post('_find', query), 400, error, reason)
    const told =
      'This cannot be answered without reading documents: no index has ranges that match the selector exactly'
    await refused({ selector: { city: { $regex: 'o' } }, reduce: '_count' }, 'no_usable_index', `${told}.`)
    await refused({ selector: { city: 'Oslo', other: 1 }, reduce: '_count' }, 'no_usable_index', `${told}.`)
    await refused(
      { selector: { city: 'Oslo' }, reduce: { _sum: 'amount' } },
      'no_usable_index',
      `${told}, and sums up the field amount.`,
    )
    await refused(
      { selector: { year: { $gt: 0 }, ...EVERYWHERE }, reduce: '_count', group: ['amount'] },
      'no_usable_index',
      `${told}, and has the fields of \`group\` in their order (amount).`,
    )
    await refused({ selector: {}, reduce: '_mean' }, 'invalid_value', 'Invalid value for reduce: _mean')
    await refused({ selector: {}, group: ['a'] }, 'invalid_value', '`group` is for queries with `reduce`.')
    await refused(
      { selector: {}, reduce: '_count', sort: ['a'] },
      'invalid_value',
      '`sort` is not for queries with `reduce`.',
    )
  })
})
