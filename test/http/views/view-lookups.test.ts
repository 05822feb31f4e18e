/** Lookups of single keys, which are answered from what is at hand: as fresh and in the same form as all else. */
import { describe, expect, it } from 'vitest'
import { expectRefusal, rawRequest, serverOfFile, type TestDatabase } from '../../support/client.ts'
import { fill, idsOf, putViews, query, valuesOf } from '../../support/views.ts'

const client = serverOfFile()

const BY_NUMBER = 'function (doc) { emit(doc.number, doc.number) }'
const BY_TWICE = 'function (doc) { emit(2 * doc.number, "twice") }'

async function numbers(count: number, text = ''): Promise<TestDatabase> {
  const db = await client().database()
  const documents = Array.from({ length: count }, (_, number) => ({ _id: `d${number}${text}`, number }))
  await fill(db, documents)
  await putViews(db, { map: { map: BY_NUMBER } })
  return db
}

describe('a lookup', () => {
  it('finds every key at its place among the others', async () => {
    const db = await numbers(300)
    for (const number of [0, 1, 77, 298, 299]) {
      const answer = await query(db, 'map', `key=${number}`)
      expect(answer).toMatchObject({ total_rows: 300, offset: number })
      expect(idsOf(answer)).toEqual([`d${number}`])
    }
    expect(await query(db, 'map', 'key=17.5')).toMatchObject({ total_rows: 300, offset: 18, rows: [] })
    expect(await query(db, 'map', 'key="x"')).toMatchObject({ total_rows: 300, offset: 300, rows: [] })
  })

  it('finds all rows of a key, however many, up to the limit', async () => {
    const db = await client().database()
    const documents = Array.from({ length: 500 }, (_, i) => ({ _id: `d${1000 + i}`, number: i < 400 ? 1 : 2 }))
    await fill(db, documents)
    await putViews(db, { map: { map: BY_NUMBER } })
    expect(idsOf(await query(db, 'map', 'key=1'))).toEqual(documents.slice(0, 400).map(({ _id }) => _id))
    expect(idsOf(await query(db, 'map', 'key=2&limit=2'))).toEqual(['d1400', 'd1401'])
    expect(await query(db, 'map', 'key=2&limit=0')).toMatchObject({ offset: 400, rows: [] })
  })

  it('sees every write that was acknowledged before it', async () => {
    const db = await numbers(3)
    for (let number = 3; number < 20; number++) {
      await db.save(`d${number}`, { number })
      expect(idsOf(await query(db, 'map', `key=${number}`))).toEqual([`d${number}`])
    }
  })

  it('sees the design document as it is now', async () => {
    const db = await numbers(3)
    expect(valuesOf(await query(db, 'map', 'key=2'))).toEqual([2])
    const { _rev } = (await db.get('_design/d')).as<{ _rev: string }>()
    await db.save('_design/d', { _rev, views: { map: { map: BY_TWICE } } })
    expect(valuesOf(await query(db, 'map', 'key=2'))).toEqual(['twice'])
    await db.remove('_design/d', (await db.get('_design/d')).as<{ _rev: string }>()._rev)
    expectRefusal(await db.get('_design/d/_view/map?key=2'), 404, 'not_found', 'deleted')
    await putViews(db, { map: { map: BY_NUMBER } })
    expect(valuesOf(await query(db, 'map', 'key=2'))).toEqual([2])
  })
})

describe('a small reply with rows', () => {
  it('has a Content-Length, and keeps the connection alive', async () => {
    const { name } = await numbers(3, 'ü€')
    const path = `/${name}/_design/d/_view/map?key=2`
    const connection = await client().open()
    connection.write(
      Buffer.concat([
        rawRequest([`GET ${path} HTTP/1.1`, 'Host: x']),
        rawRequest([`HEAD ${path} HTTP/1.1`, 'Host: x']),
        rawRequest([`GET ${path} HTTP/1.1`, 'Host: x', 'Connection: close']),
      ]),
    )
    const [first, head, second] = (await connection.closed()).split(/(?=HTTP\/1\.1 )/)
    const body = '{"total_rows":3,"offset":2,"rows":[\r\n{"id":"d2ü€","key":2,"value":2}\r\n]}\n'
    const bytes = Buffer.from(body)
    // What a connection received is a character a byte.
    const chunk = `${bytes.length.toString(16)}\r\n${bytes.toString('latin1')}\r\n0\r\n\r\n`
    expect(first?.split('\r\n\r\n').slice(1).join('\r\n\r\n')).toBe(chunk)
    expect(head).toMatch(/^HTTP\/1\.1 200 OK\r\n.*\r\n\r\n$/s)
    expect(head).not.toContain('rows')
    expect(second?.endsWith(chunk)).toBe(true)
  })

  it('is not chunked for HTTP/1.0 clients', async () => {
    const { name } = await numbers(1)
    const reply = await client().exchange(`GET /${name}/_design/d/_view/map?key=0 HTTP/1.0\r\n\r\n`)
    expect(reply).not.toContain('chunked')
    expect(reply.split('\r\n\r\n')[1]).toBe(
      '{"total_rows":1,"offset":0,"rows":[\r\n{"id":"d0","key":0,"value":0}\r\n]}\n',
    )
  })
})
