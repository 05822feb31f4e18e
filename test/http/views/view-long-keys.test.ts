/** Keys that are longer than the store can order by itself: queries treat them like others. */
import { beforeAll, describe, expect, it } from 'vitest'
import { serverOfFile, type TestDatabase } from '../../support/client.ts'
import { answerOf, fill, idsOf, keysOf, putViews, valuesOf } from '../../support/views.ts'

const client = serverOfFile()

/** Three documents a key, two of them together with others that are just as long as the store can order. */
const DOCUMENTS = Array.from({ length: 60 }, (_, n) => ({
  _id: `d${String(n).padStart(2, '0')}`,
  key: 'x'.repeat(n % 4 === 3 ? 970 + (n % 20) : 3_000) + String((n * 7) % 20).padStart(3, '0'),
}))

const IN_ORDER = [
  { _id: 'first', key: 'a' },
  ...DOCUMENTS.toSorted((a, b) => (a.key === b.key ? (a._id < b._id ? -1 : 1) : a.key < b.key ? -1 : 1)),
  { _id: 'last', key: 'z' },
]
const IDS = IN_ORDER.map(({ _id }) => _id)

let db: TestDatabase

function ask(view: string, parameters: object) {
  return db.post(`_design/d/_view/${view}`, parameters).then(answerOf)
}

/** Without showing what is too long to be looked at. */
function isSame(some: unknown, other: unknown): boolean {
  return JSON.stringify(some) === JSON.stringify(other)
}

beforeAll(async () => {
  db = await client().database()
  const map = 'function (doc) { emit(doc.key, 1) }'
  const nested = 'function (doc) { emit([doc.key, doc._id], 1) }'
  await putViews(db, { map: { map, reduce: '_sum' }, nested: { map: nested, reduce: '_sum' } })
  await fill(db, IN_ORDER.toReversed())
})

describe.each([false, true])('rows of long keys, descending: %s', (descending) => {
  const expected = descending ? IDS.toReversed() : IDS

  it('are in the order of their keys, then of their ids', async () => {
    expect(idsOf(await ask('map', { reduce: false, descending }))).toEqual(expected)
    expect(idsOf(await ask('nested', { reduce: false, descending }))).toEqual(expected)
  })

  it('are skipped', async () => {
    for (const skip of [0, 1, 2, 17, 40, 60, 61]) {
      const answer = await ask('map', { reduce: false, descending, skip, limit: 5 })
      expect([answer.offset, idsOf(answer)]).toEqual([skip, expected.slice(skip, skip + 5)])
    }
  })

  it('are skipped in a range that begins among them', async () => {
    const first = IN_ORDER.find(({ _id }) => _id === expected[20])
    const parameters = { startkey: first?.key, startkey_docid: first?._id, skip: 3, limit: 30 }
    const answer = await ask('map', { reduce: false, descending, ...parameters })
    expect([answer.offset, idsOf(answer)]).toEqual([23, expected.slice(23, 53)])
  })

  it('appear once when all rows are read', async () => {
    const seen: unknown[] = []
    for (let next = {}; seen.length < 100; ) {
      const answer = await ask('map', { reduce: false, descending, limit: 8, ...next })
      seen.push(...idsOf(answer).slice(0, 7))
      const extra = answer.rows[7]
      if (!extra) break
      next = { startkey: extra.key, startkey_docid: extra.id }
    }
    expect(seen).toEqual(expected)
  })

  it('make one group for each key', async () => {
    const keys = IN_ORDER.map(({ key }) => key)
    const distinct = [...new Set(descending ? keys.toReversed() : keys)]
    const counts = distinct.map((key) => keys.filter((other) => other === key).length)
    const byKey = await ask('map', { group: true, descending })
    expect(isSame(keysOf(byKey), distinct)).toBe(true)
    expect(valuesOf(byKey)).toEqual(counts)
    expect(valuesOf(await ask('nested', { group_level: 1, descending }))).toEqual(counts)
  })
})

it('are read with their documents, one key at a time', async () => {
  const keys = [DOCUMENTS[4]?.key, 'z', DOCUMENTS[1]?.key]
  const ids = keys.flatMap((key) => IN_ORDER.filter((document) => document.key === key).map(({ _id }) => _id))
  const answer = await ask('map', { reduce: false, include_docs: true, keys, skip: 1 })
  expect(idsOf(answer)).toEqual(ids.slice(1))
  expect(answer.rows.map(({ doc }) => doc?._id)).toEqual(ids.slice(1))
})
