import { describe, expect, it } from 'vitest'
import { expectRefusal, type Reply, serverOfFile, type TestDatabase } from '../../support/client.ts'
import { EMPTY } from '../../support/first-revisions.ts'
import type { Listing } from '../../support/listing.ts'

const client = serverOfFile()

async function filled(...ids: string[]): Promise<TestDatabase> {
  const db = await client().database()
  await db.post('_bulk_docs', { docs: ids.map((_id) => ({ _id })) })
  return db
}

function idsIn(reply: Reply): unknown[] {
  expect(reply.status, reply.text).toBe(200)
  return reply.as<Listing>().rows.map(({ id }) => id)
}

/** `offset: ids`, to compare at a glance. */
function glance(reply: Reply): string {
  return `${reply.as<Listing>().offset}: ${idsIn(reply).join(' ')}`.trim()
}

function json(value: unknown): string {
  return encodeURIComponent(JSON.stringify(value))
}

/** The order of ids is that of their bytes. */
function byBytes(left: string, right: string): number {
  return Buffer.compare(Buffer.from(left), Buffer.from(right))
}

function row(id: string): string {
  return `{"id":"${id}","key":"${id}","value":{"rev":"${EMPTY}"}}`
}

describe('the reply of _all_docs', () => {
  it('is framed with one row for each line', async () => {
    const db = await filled('b', 'a')
    const reply = await db.get('_all_docs')
    expect(reply.status).toBe(200)
    expect(reply.text).toBe(`{"total_rows":2,"offset":0,"rows":[\r\n${row('a')},\r\n${row('b')}\r\n]}\n`)
  })

  it('is framed the same without rows', async () => {
    const db = await filled()
    expect((await db.get('_all_docs')).text).toBe('{"total_rows":0,"offset":0,"rows":[\r\n\r\n]}\n')
  })

  it('has update_seq after offset when it is asked for', async () => {
    const db = await filled('a', 'b')
    await db.delete(`b?rev=${EMPTY}`)
    const reply = await db.get('_all_docs?update_seq=true')
    expect(reply.text).toBe(`{"total_rows":1,"offset":0,"update_seq":3,"rows":[\r\n${row('a')}\r\n]}\n`)
  })

  it('has the document last in the row', async () => {
    const db = await client().database()
    const rev = await db.save('a', '{"2":1,"1":1.10}')
    expect((await db.get('_all_docs?include_docs=true')).text).toBe(
      '{"total_rows":1,"offset":0,"rows":[\r\n' +
        `{"id":"a","key":"a","value":{"rev":"${rev}"},"doc":{"_id":"a","_rev":"${rev}","2":1,"1":1.10}}\r\n]}\n`,
    )
  })

  it('is chunked and negotiated as all JSON is', async () => {
    const db = await filled('a')
    const plain = await db.get('_all_docs')
    expect(plain.headers['transfer-encoding']).toBe('chunked')
    expect(plain.headers['content-length']).toBeUndefined()
    expect(plain.headers['content-type']).toBe('text/plain;charset=utf-8')
    expect(plain.headers['cache-control']).toBe('must-revalidate')
    const asked = await db.get('_all_docs', { Accept: 'application/json' })
    expect(asked.headers['content-type']).toBe('application/json')
    expect(asked.text).toBe(plain.text)
  })

  it('has for HEAD the same head, without a length', async () => {
    const db = await filled('a')
    const whole = await db.get('_all_docs')
    const head = await db.head('_all_docs')
    expect([head.status, head.text]).toEqual([200, ''])
    expect(head.headers['content-length']).toBeUndefined()
    expect(head.headers['content-type']).toBe(whole.headers['content-type'])
    expect(head.headers.etag).toBe(whole.headers.etag)
  })

  it('has an ETag of the state of the database', async () => {
    const db = await filled('a')
    const { etag } = (await db.get('_all_docs')).headers
    expect(etag).toMatch(/^"[^"]+"$/)
    const known = await db.get('_all_docs', { 'If-None-Match': etag })
    expect([known.status, known.text, known.headers.etag]).toEqual([304, '', etag])
    await db.save('b', {})
    const changed = await db.get('_all_docs', { 'If-None-Match': etag })
    expect(changed.status).toBe(200)
    expect(changed.headers.etag).not.toBe(etag)
  })

  it('escapes ids as JSON does', async () => {
    const ids = ['"', '\\', '\u0000', '\n', 'é', '😀', '/']
    const db = await filled(...ids)
    expect(idsIn(await db.get('_all_docs'))).toEqual([...ids].sort(byBytes))
  })
})

describe('the rows of _all_docs', () => {
  it('are in the order of the bytes of their ids', async () => {
    const ids = [
      'a',
      'B',
      'A',
      'b',
      'aa',
      'á',
      'Z',
      '_design/x',
      '0',
      '10',
      '9',
      '\u{1f600}',
      '\uffee',
      'a b',
      'a-b',
      '~',
    ]
    const db = await filled(...ids)
    expect(idsIn(await db.get('_all_docs'))).toEqual([...ids].sort(byBytes))
    expect(idsIn(await db.get('_all_docs?descending=true'))).toEqual([...ids].sort(byBytes).reverse())
  })

  it('omit deleted documents', async () => {
    const db = await filled('a', 'b', 'c')
    await db.delete(`b?rev=${EMPTY}`)
    const reply = await db.get('_all_docs')
    expect(reply.json).toMatchObject({ total_rows: 2, offset: 0 })
    expect(idsIn(reply)).toEqual(['a', 'c'])
    expect(idsIn(await db.get('_all_docs?key="b"'))).toEqual([])
  })

  it('have the winner for value and document', async () => {
    const db = await client().database()
    await db.replicate({ _id: 'd', _rev: '1-a', n: 1 }, { _id: 'd', _rev: '1-b', n: 2 })
    expect((await db.get('_all_docs?include_docs=true')).as<Listing>().rows).toEqual([
      { id: 'd', key: 'd', value: { rev: '1-b' }, doc: { _id: 'd', _rev: '1-b', n: 2 } },
    ])
    expect((await db.get('_all_docs?include_docs=true&conflicts=true')).as<Listing>().rows).toMatchObject([
      { doc: { _rev: '1-b', n: 2, _conflicts: ['1-a'] } },
    ])
    expect((await db.get('_all_docs?conflicts=true')).as<Listing>().rows).toEqual([
      { id: 'd', key: 'd', value: { rev: '1-b' } },
    ])
  })
})

describe('a range of _all_docs', () => {
  it.each([
    ['key="c"', '2: c'],
    ['key="bb"', '2:'],
    ['key="zz"', '5:'],
    ['key="0"', '0:'],
    ['startkey="c"', '2: c d e'],
    ['start_key="c"', '2: c d e'],
    ['startkey="bb"', '2: c d e'],
    ['endkey="c"', '0: a b c'],
    ['end_key="c"', '0: a b c'],
    ['endkey="cc"', '0: a b c'],
    ['endkey="c"&inclusive_end=false', '0: a b'],
    ['endkey="cc"&inclusive_end=false', '0: a b c'],
    ['startkey="b"&endkey="d"', '1: b c d'],
    ['startkey="b"&endkey="b"', '1: b'],
    ['startkey="b"&endkey="b"&inclusive_end=false', '1:'],
    ['startkey="f"', '5:'],
    ['endkey="0"', '0:'],
    ['startkey="d"&endkey="b"', '3:'],
    ['descending=true', '0: e d c b a'],
    ['descending=true&key="c"', '2: c'],
    ['descending=true&startkey="c"', '2: c b a'],
    ['descending=true&startkey="cc"', '2: c b a'],
    ['descending=true&endkey="c"', '0: e d c'],
    ['descending=true&endkey="c"&inclusive_end=false', '0: e d'],
    ['descending=true&startkey="d"&endkey="b"', '1: d c b'],
    ['descending=true&startkey="b"&endkey="d"', '3:'],
    ['skip=2', '2: c d e'],
    ['limit=2', '0: a b'],
    ['skip=1&limit=2', '1: b c'],
    ['limit=0', '0:'],
    ['startkey="b"&limit=0', '1:'],
    ['limit=99999999', '0: a b c d e'],
    ['limit=9223372036854775807', '0: a b c d e'],
    ['startkey="b"&skip=1', '2: c d e'],
    ['descending=true&startkey="d"&skip=1&limit=2', '2: c b'],
    ['startkey_docid=c', '2: c d e'],
    ['start_key_doc_id=c', '2: c d e'],
    ['endkey_docid=c', '0: a b c'],
    ['end_key_doc_id=c', '0: a b c'],
    ['startkey_docid=b&endkey_docid=d', '1: b c d'],
    ['startkey=5&startkey_docid=c', '2: c d e'],
    ['endkey=null&endkey_docid=c', '0: a b c'],
    ['startkey=null', '0: a b c d e'],
    ['startkey=c', '2: c d e'],
    ['key=c', '2: c'],
    ['startkey=b&endkey=d', '1: b c d'],
    ['stale=ok', '0: a b c d e'],
    ['stale=update_after&limit=1', '0: a'],
    ['descending=false', '0: a b c d e'],
    ['descending=TRUE', '0: e d c b a'],
    ['inclusive_end=FALSE&endkey="c"', '0: a b'],
    ['reduce=false', '0: a b c d e'],
    ['limit=1&limit=2', '0: a b'],
    ['nosuch=parameter', '0: a b c d e'],
  ])('%s is %s', async (query, expected) => {
    const db = await filled('a', 'b', 'c', 'd', 'e')
    const reply = await db.get(`_all_docs?${query.replaceAll('"', '%22')}`)
    expect(glance(reply)).toBe(expected)
    expect(reply.as<Listing>().total_rows).toBe(5)
  })

  it('does not count deleted documents in its offset', async () => {
    const db = await filled('a', 'b', 'c', 'd')
    await db.delete(`a?rev=${EMPTY}`)
    await db.delete(`d?rev=${EMPTY}`)
    expect(glance(await db.get('_all_docs?startkey=%22c%22'))).toBe('1: c')
    expect(glance(await db.get('_all_docs?descending=true&startkey=%22b%22'))).toBe('1: b')
  })

  it.each(['limit=x', 'limit=1.5', 'limit=', 'skip=x', 'skip=1e3'])('%s is refused', async (query) => {
    const db = await filled('a')
    const reason = `Invalid value for integer: "${query.split('=')[1]}"`
    expectRefusal(await db.get(`_all_docs?${query}`), 400, 'query_parse_error', reason)
  })

  it.each([
    ['limit=-1', 'Invalid value for positive integer: "-1"'],
    ['skip=-1', 'Invalid value for positive integer: "-1"'],
    ['descending=x', 'Invalid boolean parameter: "x"'],
    ['include_docs=1', 'Invalid boolean parameter: "1"'],
    ['inclusive_end=no', 'Invalid boolean parameter: "no"'],
    ['update_seq=x', 'Invalid boolean parameter: "x"'],
    ['conflicts=x', 'Invalid boolean parameter: "x"'],
    ['count=5', 'QS param `count` is not `limit`'],
    ['stale=maybe', 'Invalid value for `stale`.'],
    ['reduce=true', 'Reduce is invalid for map-only views.'],
    ['group=true', 'Invalid use of grouping on a map view.'],
  ])('%s is refused', async (query, reason) => {
    const db = await filled('a')
    expectRefusal(await db.get(`_all_docs?${query}`), 400, 'query_parse_error', reason)
  })
})

describe('keys of _all_docs', () => {
  it('return a row each, in their order', async () => {
    const db = await filled('a', 'b', 'c')
    await db.delete(`b?rev=${EMPTY}`)
    const tombstone = '2-eec205a9d413992850a6e32678485900'
    const reply = await db.post('_all_docs', { keys: ['c', 'b', 'nosuch', 'a', 'c', 5, null, ['a'], {}] })
    expect(reply.status).toBe(200)
    expect(reply.text).toBe(
      '{"total_rows":2,"offset":0,"rows":[\r\n' +
        [
          row('c'),
          `{"id":"b","key":"b","value":{"rev":"${tombstone}","deleted":true}}`,
          '{"key":"nosuch","error":"not_found"}',
          row('a'),
          row('c'),
          '{"key":5,"error":"not_found"}',
          '{"key":null,"error":"not_found"}',
          '{"key":["a"],"error":"not_found"}',
          '{"key":{},"error":"not_found"}',
        ].join(',\r\n') +
        '\r\n]}\n',
    )
  })

  it('may be in the query', async () => {
    const db = await filled('a', 'b')
    expect(idsIn(await db.get(`_all_docs?keys=${json(['b', 'a'])}`))).toEqual(['b', 'a'])
  })

  it('include documents that are not deleted', async () => {
    const db = await filled('a', 'b')
    await db.delete(`b?rev=${EMPTY}`)
    const { rows } = (await db.post('_all_docs?include_docs=true', { keys: ['a', 'b', 'nosuch'] })).as<Listing>()
    expect(rows).toEqual([
      { id: 'a', key: 'a', value: { rev: EMPTY }, doc: { _id: 'a', _rev: EMPTY } },
      {
        id: 'b',
        key: 'b',
        value: { rev: '2-eec205a9d413992850a6e32678485900', deleted: true },
        doc: null,
      },
      { key: 'nosuch', error: 'not_found' },
    ])
  })

  it('honour descending, skip and limit', async () => {
    const db = await filled('a', 'b', 'c', 'd')
    const keys = ['d', 'a', 'c', 'b']
    expect(idsIn(await db.post('_all_docs?descending=true', { keys }))).toEqual(['b', 'c', 'a', 'd'])
    expect(idsIn(await db.post('_all_docs?skip=1', { keys }))).toEqual(['a', 'c', 'b'])
    expect(idsIn(await db.post('_all_docs?limit=2', { keys }))).toEqual(['d', 'a'])
    expect(idsIn(await db.post('_all_docs?skip=1&limit=2', { keys }))).toEqual(['a', 'c'])
    expect(idsIn(await db.post('_all_docs?descending=true&skip=1&limit=2', { keys }))).toEqual(['c', 'a'])
  })

  it('that are empty return no rows and no offset', async () => {
    const db = await filled('a')
    expect((await db.post('_all_docs', { keys: [] })).text).toBe('{"total_rows":1,"rows":[\r\n\r\n]}\n')
  })

  it('cannot be combined with a range', async () => {
    const db = await filled('a')
    const reason = '`keys` is incompatible with `key`, `start_key` and `end_key`'
    for (const parameter of ['key', 'startkey', 'start_key', 'endkey', 'end_key']) {
      const reply = await db.post(`_all_docs?${parameter}=${json('a')}`, { keys: ['a'] })
      expectRefusal(reply, 400, 'query_parse_error', reason)
    }
  })

  it('must be a list', async () => {
    const db = await filled('a')
    for (const keys of ['a', {}, 5, null, true]) {
      expectRefusal(await db.post('_all_docs', { keys }), 400, 'bad_request', '`keys` member must be a array.')
    }
  })
})

describe('revisions that clients named', () => {
  it('are quoted, whatever is in them', async () => {
    const db = await client().database()
    const docs = [
      { _id: 'live', _rev: '1-a"b\\c' },
      { _id: 'gone', _rev: '1-"', _deleted: true },
    ]
    await db.post('_bulk_docs', { new_edits: false, docs })
    const listed: Listing = JSON.parse((await db.get('_all_docs')).text)
    expect(listed.rows.map(({ value }) => value)).toEqual([{ rev: '1-a"b\\c' }])
    const named: Listing = JSON.parse((await db.post('_all_docs', { keys: ['gone'] })).text)
    expect(named.rows.map(({ value }) => value)).toEqual([{ rev: '1-"', deleted: true }])
  })
})

describe('POST _all_docs', () => {
  it('without keys is GET', async () => {
    const db = await filled('a', 'b')
    expect((await db.post('_all_docs', {})).text).toBe((await db.get('_all_docs')).text)
    expect(idsIn(await db.post('_all_docs?descending=true', {}))).toEqual(['b', 'a'])
  })

  it('needs no Content-Type', async () => {
    const db = await filled('a')
    expect(idsIn(await db.post('_all_docs', { keys: ['a'] }, { 'Content-Type': undefined }))).toEqual(['a'])
  })

  it.each(['[]', '"keys"', '5', 'null'])('refuses the body %s', async (body) => {
    const db = await filled('a')
    expectRefusal(await db.post('_all_docs', body), 400, 'bad_request', 'Request body must be a JSON object')
  })

  it.each(['', '{', '{"keys":[}'])('refuses the body %j', async (body) => {
    const db = await filled('a')
    expectRefusal(await db.post('_all_docs', body), 400, 'bad_request', 'invalid_json')
  })
})
