/** Reduced queries: of all rows, of ranges, of groups, with the server's own functions and with others. */
import { beforeAll, describe, expect, it } from 'vitest'
import { serverOfFile, type TestDatabase } from '../../support/client.ts'
import { answerOf, fill, json, keysOf, putViews, query, valuesOf } from '../../support/views.ts'

const client = serverOfFile()

const BY_KEY = 'function (doc) { emit(doc.key, doc.value) }'

const VIEWS = {
  sum: { map: BY_KEY, reduce: '_sum' },
  count: { map: BY_KEY, reduce: '_count' },
  stats: { map: BY_KEY, reduce: '_stats' },
  custom: { map: BY_KEY, reduce: 'function (keys, values, rereduce) { return sum(values) }' },
}

describe('a reduced query', () => {
  let db: TestDatabase

  /** Keys [a, 0], [a, 1], [a, 2], [b, 0], ... with values 1, 2, 3, ... */
  beforeAll(async () => {
    db = await client().database()
    const docs = ['a', 'b', 'c'].flatMap((letter, l) =>
      [0, 1, 2].map((n) => ({ _id: `${letter}${n}`, key: [letter, n], value: 3 * l + n + 1 })),
    )
    await fill(db, docs)
    await putViews(db, VIEWS)
  })

  it.each(['sum', 'custom'])('puts all rows of %s together', async (view) => {
    expect((await db.get(`_design/d/_view/${view}`)).text).toBe('{"rows":[\r\n{"key":null,"value":45}\r\n]}\n')
    expect(await query(db, view, 'group=false')).toEqual({ rows: [{ key: null, value: 45 }] })
    expect(await query(db, view, 'group_level=0')).toEqual({ rows: [{ key: null, value: 45 }] })
  })

  it.each(['sum', 'custom'])('puts the rows of ranges of %s together', async (view) => {
    const from = `startkey=${json(['a', 2])}`
    const to = `endkey=${json(['b', 1])}`
    expect(valuesOf(await query(db, view, `${from}&${to}`))).toEqual([3 + 4 + 5])
    expect(valuesOf(await query(db, view, `${from}&${to}&inclusive_end=false`))).toEqual([3 + 4])
    expect(valuesOf(await query(db, view, `key=${json(['a', 2])}`))).toEqual([3])
  })

  it('has no row when there is nothing to reduce', async () => {
    for (const parameters of ['key=1', 'startkey=%22z%22&endkey=%22a%22', 'limit=0', 'skip=1', 'key=1&group=true']) {
      expect((await db.get(`_design/d/_view/sum?${parameters}`)).text).toBe('{"rows":[\r\n\r\n]}\n')
    }
  })

  it.each(['sum', 'custom'])('groups equal keys of %s', async (view) => {
    const { rows } = await query(db, view, 'group=true')
    expect(rows).toHaveLength(9)
    expect(rows[4]).toEqual({ key: ['b', 1], value: 5 })
  })

  it.each(['sum', 'custom'])('groups keys of %s by their first elements', async (view) => {
    const groups = [
      { key: ['a'], value: 6 },
      { key: ['b'], value: 15 },
      { key: ['c'], value: 24 },
    ]
    expect(await query(db, view, 'group_level=1')).toEqual({ rows: groups })
    expect(await query(db, view, 'group_level=1&descending=true')).toEqual({ rows: groups.toReversed() })
    expect(await query(db, view, 'group_level=1&skip=1&limit=1')).toEqual({ rows: [groups[1]] })
    expect((await query(db, view, 'group_level=2')).rows).toHaveLength(9)
    expect((await query(db, view, 'group_level=7')).rows).toHaveLength(9)
  })

  it('reduces only the rows of a group that are in the range', async () => {
    const range = `startkey=${json(['a', 1])}&endkey=${json(['c', 0])}`
    expect(await query(db, 'sum', `group_level=1&${range}`)).toEqual({
      rows: [
        { key: ['a'], value: 5 },
        { key: ['b'], value: 15 },
        { key: ['c'], value: 7 },
      ],
    })
  })

  it('has a row for each requested key that exists', async () => {
    const keys = [['c', 1], ['a', 0], ['x'], ['a', 0]]
    expect(answerOf(await db.post('_design/d/_view/sum?group=true', { keys }))).toEqual({
      rows: [
        { key: ['c', 1], value: 8 },
        { key: ['a', 0], value: 1 },
        { key: ['a', 0], value: 1 },
      ],
    })
    const limited = await db.post('_design/d/_view/custom?group=true&skip=1&limit=1', { keys })
    expect(keysOf(answerOf(limited))).toEqual([['a', 0]])
  })

  it('has the rows themselves with reduce=false', async () => {
    expect(await query(db, 'sum', 'reduce=false&limit=1')).toEqual({
      total_rows: 9,
      offset: 0,
      rows: [{ id: 'a0', key: ['a', 0], value: 1 }],
    })
  })

  it('returns update_seq when requested', async () => {
    expect(await query(db, 'count', 'update_seq=true')).toEqual({ update_seq: 10, rows: [{ key: null, value: 9 }] })
  })

  it('counts and takes statistics', async () => {
    expect(valuesOf(await query(db, 'count'))).toEqual([9])
    const stats = { sum: 45, count: 9, min: 1, max: 9, sumsqr: 285 }
    expect(valuesOf(await query(db, 'stats'))).toEqual([stats])
    expect(Object.keys((await query(db, 'stats')).rows[0]?.value ?? {})).toEqual(Object.keys(stats))
  })
})

describe('groups', () => {
  it('are of equal values, and of neighbours', async () => {
    const db = await client().database()
    const keys = ['caf\u00e9', 'cafe\u0301', 'caf\u00e9', { x: 1, y: 2 }, { x: 1, y: 2 }, { y: 2, x: 1 }, 1, 1.0]
    await fill(
      db,
      keys.map((key, n) => ({ _id: `d${n}`, key, value: 1 })),
    )
    await putViews(db, VIEWS)
    expect((await query(db, 'count', 'group=true')).rows).toEqual([
      { key: 1, value: 2 },
      { key: 'caf\u00e9', value: 1 },
      { key: 'cafe\u0301', value: 1 },
      { key: 'caf\u00e9', value: 1 },
      { key: { x: 1, y: 2 }, value: 2 },
      { key: { y: 2, x: 1 }, value: 1 },
    ])
  })

  it('keep keys apart that are shorter, empty or not arrays', async () => {
    const db = await client().database()
    const keys = [null, 'a', [], ['a'], ['a', 1], ['a', 1, 2], ['a', 1, 3], { a: 1 }, { a: 1 }]
    await fill(
      db,
      keys.map((key, n) => ({ _id: `d${n}`, key, value: 1 })),
    )
    await putViews(db, VIEWS)
    expect((await query(db, 'custom', 'group_level=2')).rows).toEqual([
      { key: null, value: 1 },
      { key: 'a', value: 1 },
      { key: [], value: 1 },
      { key: ['a'], value: 1 },
      { key: ['a', 1], value: 3 },
      { key: { a: 1 }, value: 2 },
    ])
    expect(keysOf(await query(db, 'custom', 'group_level=1'))).toEqual([null, 'a', [], ['a'], { a: 1 }])
  })

  it('may be many, and each large', async () => {
    const db = await client().database()
    const docs = Array.from({ length: 3_000 }, (_, n) => ({ _id: `d${n}`, key: [n % 3, n % 300, n], value: n }))
    await fill(db, docs)
    await putViews(db, VIEWS)
    const expected = (level: number) => {
      const sums = new Map<string, number>()
      for (const { key, value } of docs) {
        const group = JSON.stringify(key.slice(0, level))
        sums.set(group, (sums.get(group) ?? 0) + value)
      }
      return sums
    }
    for (const view of ['sum', 'custom']) {
      for (const level of [1, 2, 3]) {
        const { rows } = await query(db, view, `group_level=${level}`)
        expect(new Map(rows.map(({ key, value }) => [JSON.stringify(key), value]))).toEqual(expected(level))
      }
    }
  })
})
