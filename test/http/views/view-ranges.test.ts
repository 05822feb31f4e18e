/** Which rows a query answers with, in which order, and what it says of their place. */
import { beforeAll, describe, expect, it } from 'vitest'
import { serverOfFile, type TestDatabase } from '../../support/client.ts'
import { answerOf, fill, idsOf, json, keysOf, putViews, query, type ViewAnswer, valuesOf } from '../../support/views.ts'

const client = serverOfFile()

const EACH_KEY = 'function (doc) { for (var i = 0; i < doc.keys.length; i++) emit(doc.keys[i], i) }'

/** Documents that emit the keys they have. */
async function emitting(keys: Record<string, unknown[]>, options?: Record<string, unknown>): Promise<TestDatabase> {
  const db = await client().database()
  await fill(
    db,
    Object.entries(keys).map(([_id, list]) => ({ _id, keys: list })),
  )
  await putViews(db, { map: { map: EACH_KEY } }, options && { options })
  return db
}

describe('the order of rows', () => {
  const IN_ORDER = [
    null,
    false,
    true,
    -1.5,
    0,
    1,
    10,
    '',
    'a',
    'A',
    'aa',
    'b',
    'B',
    'ba',
    [],
    ['a'],
    ['b', 'c'],
    ['b', 'c', 'a'],
    ['b', 'd'],
    {},
    { a: 1 },
    { a: 2 },
    { b: 1 },
    { b: 2, a: 1 },
    { b: 2, c: 2 },
  ]

  it('is that of types, then of values', async () => {
    const db = await emitting({ one: IN_ORDER.toReversed() })
    expect(keysOf(await query(db, 'map'))).toEqual(IN_ORDER)
    expect(keysOf(await query(db, 'map', 'descending=true'))).toEqual(IN_ORDER.toReversed())
  })

  it('finds every key, and every range between two', async () => {
    const db = await emitting({ one: IN_ORDER })
    for (const [i, key] of IN_ORDER.entries()) {
      expect(keysOf(await query(db, 'map', `key=${json(key)}`))).toEqual([key])
      expect(keysOf(await query(db, 'map', `startkey=${json(key)}`))).toEqual(IN_ORDER.slice(i))
      expect(keysOf(await query(db, 'map', `endkey=${json(key)}`))).toEqual(IN_ORDER.slice(0, i + 1))
      const open = await query(db, 'map', `endkey=${json(key)}&inclusive_end=false`)
      expect(keysOf(open)).toEqual(IN_ORDER.slice(0, i))
    }
  })

  it('is that of bytes where the design document or the view asks for it', async () => {
    const keys = [1, false, null, true, {}, [], 'B', 'a', 'b']
    const db = await emitting({ one: keys.toReversed() }, { collation: 'raw' })
    expect(keysOf(await query(db, 'map'))).toEqual(keys)
    expect(keysOf(await query(db, 'map', `startkey=${json('B')}&endkey=${json('a')}`))).toEqual(['B', 'a'])
    await putViews(
      db,
      { raw: { map: EACH_KEY, options: { collation: 'raw' } }, other: { map: EACH_KEY } },
      { name: 'own' },
    )
    expect(keysOf(answerOf(await db.get('_design/own/_view/raw?limit=2')))).toEqual([1, false])
    expect(keysOf(answerOf(await db.get('_design/own/_view/other?limit=2')))).toEqual([null, false])
  })

  it('is that of ids by their bytes among equal keys, then that of values', async () => {
    const db = await client().database()
    const ids = ['B', 'a', 'b', 'é', '中']
    await fill(
      db,
      ids.toReversed().map((_id) => ({ _id })),
    )
    await putViews(db, { map: { map: 'function () { emit(1, "x"); emit(1, [1]); emit(1, null); emit(1, 5) }' } })
    const answer = await query(db, 'map')
    expect(idsOf(answer)).toEqual(ids.flatMap((id) => [id, id, id, id]))
    expect(valuesOf(answer).slice(0, 4)).toEqual([5, null, [1], 'x'])
    expect(idsOf(await query(db, 'map', 'descending=true'))).toEqual(idsOf(answer).toReversed())
    expect(valuesOf(await query(db, 'map', 'descending=true'))).toEqual(valuesOf(answer).toReversed())
  })

  it('groups strings that collate equal, whichever is requested', async () => {
    const db = await emitting({ a: ['caf\u00e9'], b: ['cafe\u0301'], c: ['caf\u00e9\u0000'], d: ['cafe'] })
    for (const key of ['caf\u00e9', 'cafe\u0301']) {
      expect(idsOf(await query(db, 'map', `key=${json(key)}`))).toEqual(['a', 'b', 'c'])
    }
  })
})

describe('ranges', () => {
  let db: TestDatabase

  /** Rows 0 to 9; keys 3 and 7 are those of three documents each. */
  beforeAll(async () => {
    const rows = [0, 1, 3, 3, 3, 5, 7, 7, 7, 9]
    db = await emitting(Object.fromEntries(rows.map((key, n) => [`d${n}`, [key]])))
  })

  it.each([
    ['startkey=3', [2, 3, 4, 5, 6, 7, 8, 9]],
    ['endkey=3', [0, 1, 2, 3, 4]],
    ['startkey=3&endkey=7', [2, 3, 4, 5, 6, 7, 8]],
    ['startkey=4&endkey=6', [5]],
    ['key=3', [2, 3, 4]],
    ['key=4', []],
    ['startkey=3&endkey=7&inclusive_end=false', [2, 3, 4, 5]],
    ['startkey=3&startkey_docid=d3&endkey=7', [3, 4, 5, 6, 7, 8]],
    ['startkey=3&endkey=7&endkey_docid=d7', [2, 3, 4, 5, 6, 7]],
    ['startkey=3&endkey=7&endkey_docid=d7&inclusive_end=false', [2, 3, 4, 5, 6]],
    ['startkey=3&startkey_docid=d30', [4, 5, 6, 7, 8, 9]],
    ['startkey=2&startkey_docid=d4&limit=1', [2]],
    ['key=7&startkey_docid=d7&endkey_docid=d7', [7]],
    ['key=7&inclusive_end=false', []],
    ['startkey_docid=d3', [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]],
    ['endkey_docid=d3', [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]],
    ['startkey=3&endkey_docid=d3', [2, 3, 4, 5, 6, 7, 8, 9]],
    ['descending=true&startkey=7&endkey=3', [8, 7, 6, 5, 4, 3, 2]],
    ['descending=true&startkey=7&endkey=3&inclusive_end=false', [8, 7, 6, 5]],
    ['descending=true&startkey=7&startkey_docid=d7&endkey=3', [7, 6, 5, 4, 3, 2]],
    ['descending=true&startkey=7&endkey=3&endkey_docid=d3', [8, 7, 6, 5, 4, 3]],
    ['descending=true&startkey=7&endkey=3&endkey_docid=d3&inclusive_end=false', [8, 7, 6, 5, 4]],
    ['descending=true&key=3', [4, 3, 2]],
    ['startkey=7&endkey=3', []],
    ['descending=true&startkey=3&endkey=7', []],
    ['startkey=3&startkey_docid=d4&endkey=3&endkey_docid=d2', []],
    ['limit=3', [0, 1, 2]],
    ['skip=8', [8, 9]],
    ['skip=2&limit=2', [2, 3]],
    ['descending=true&skip=1&limit=2', [8, 7]],
    ['startkey=3&endkey=7&skip=2&limit=3', [4, 5, 6]],
    ['limit=0', []],
  ])('%s', async (parameters, expected) => {
    expect(idsOf(await query(db, 'map', parameters))).toEqual(expected.map((n) => `d${n}`))
  })

  it.each([
    [[5, 3], '', [5, 2, 3, 4]],
    [[3, 3], '', [2, 3, 4, 2, 3, 4]],
    [[4, 5, 'x', null], '', [5]],
    [[], '', []],
    [[7, 3], 'descending=true', [8, 7, 6, 4, 3, 2]],
    [[3, 7], 'startkey_docid=d3&endkey_docid=d7', [3, 4, 6, 7]],
    [[3, 7, 9], 'skip=2&limit=3', [4, 6, 7]],
    [[3, 7, 9], 'skip=3&limit=1', [6]],
    [[3, 7], 'skip=6', []],
    [[3, 7], 'inclusive_end=false', []],
    [[3], 'limit=0', []],
  ])('keys %j with %s', async (keys, parameters, expected) => {
    const ids = expected.map((n) => `d${n}`)
    expect(idsOf(answerOf(await db.post(`_design/d/_view/map?${parameters}`, { keys })))).toEqual(ids)
    expect(idsOf(await query(db, 'map', `keys=${json(keys)}&${parameters}`))).toEqual(ids)
  })

  it.each([
    ['', 0],
    ['limit=0', 0],
    ['startkey=3', 2],
    ['startkey=3&skip=2', 4],
    ['startkey=3&skip=2&limit=0', 4],
    ['descending=true', 0],
    ['descending=true&startkey=7', 1],
    ['descending=true&startkey=7&skip=1', 2],
    ['startkey=100', 10],
    ['endkey=-1', 0],
    ['startkey=4&endkey=4.5', 5],
    ['key=6', 6],
    ['descending=true&key=6', 4],
    ['skip=10', 10],
    ['skip=1000', 10],
    ['startkey=3&endkey=5&skip=4', 6],
    ['startkey=3&endkey=5&skip=400', 6],
    ['descending=true&startkey=5&endkey=3&skip=400', 8],
    ['startkey=7&endkey=3', 6],
    ['descending=true&startkey=3&endkey=7', 5],
    ['keys=[5,3]', 5],
    ['keys=[4,3]&skip=1', 3],
    ['keys=[3,5]&skip=3', 5],
    ['keys=[3,5]&skip=4', 6],
    ['keys=[5,4]&skip=1', 5],
    ['keys=[5,100]&skip=1', 10],
    ['keys=[]', 0],
    ['keys=[7]&descending=true', 1],
  ])('the offset of %s is %i', async (parameters, offset) => {
    const answer: ViewAnswer = await query(db, 'map', parameters)
    expect({ total_rows: answer.total_rows, offset: answer.offset }).toEqual({ total_rows: 10, offset })
  })

  it('pages through all rows as linked lists do', async () => {
    const seen: unknown[] = []
    let next = ''
    for (let page = 0; page < 20; page++) {
      const { rows } = await query(db, 'map', `limit=4${next}`)
      seen.push(...rows.slice(0, 3).map(({ id }) => id))
      const extra = rows[3]
      if (!extra) break
      next = `&startkey=${json(extra.key)}&startkey_docid=${extra.id}`
    }
    expect(seen).toEqual(Array.from({ length: 10 }, (_, n) => `d${n}`))
  })
})

/** Without showing what is too long to be looked at. */
function same(some: unknown[], others: unknown[]): boolean {
  return JSON.stringify(some) === JSON.stringify(others)
}

describe('rows with unusual keys and ids', () => {
  it('are found', async () => {
    const long = 'x'.repeat(5_000)
    const db = await emitting({
      'a\u0000b': ['\u0000'],
      'a"\\': ['"\\\n'],
      'é/ü': ['😀'],
      long: [long, [long, 1], `${long}y`],
    })
    expect(idsOf(await query(db, 'map', `key=${json('😀')}`))).toEqual(['é/ü'])
    expect(idsOf(await query(db, 'map', `key=${json('"\\\n')}`))).toEqual(['a"\\'])
    const reply = await db.post('_design/d/_view/map', { keys: [long, `${long}y`, `${long}z`, [long, 1]] })
    expect(same(keysOf(answerOf(reply)), [long, `${long}y`, [long, 1]])).toBe(true)
    const all = keysOf(await query(db, 'map'))
    expect(same(all.slice(3), [long, `${long}y`, [long, 1]])).toBe(true)
    const skipped = await Promise.all([3, 4, 5].map((skip) => query(db, 'map', `skip=${skip}`)))
    expect(skipped.map((answer) => keysOf(answer).length)).toEqual([3, 2, 1])
    for (const [i, answer] of skipped.entries()) expect(same(keysOf(answer), all.slice(3 + i))).toBe(true)
  })

  it('come as they were emitted', async () => {
    const db = await client().database()
    await fill(db, [{ _id: 'a' }])
    const map = `function (doc) {
      emit({ b: 1, a: [1.5, 1e100, -0] }, { d: new Date(0), u: undefined, n: NaN, t: 'é\\u2028"' });
      emit();
      emit(undefined, undefined)
    }`
    await putViews(db, { map: { map } })
    const reply = await db.get('_design/d/_view/map')
    expect(reply.text).toBe(
      [
        '{"total_rows":3,"offset":0,"rows":[',
        '{"id":"a","key":null,"value":null},',
        '{"id":"a","key":null,"value":null},',
        '{"id":"a","key":{"b":1,"a":[1.5,1e+100,0]},"value":{"d":"1970-01-01T00:00:00.000Z","n":null,"t":"é\u2028\\""}}',
        ']}\n',
      ].join('\r\n'),
    )
  })
})
