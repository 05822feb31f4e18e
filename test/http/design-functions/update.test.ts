import { describe, expect, it } from 'vitest'
import { expectConflict, expectRefusal, serverOfFile, type TestDatabase } from '../../support/client.ts'

const client = serverOfFile()

async function databaseWith(updates: Record<string, string>, members: object = {}): Promise<TestDatabase> {
  const db = await client().database()
  await db.save('_design/app', { updates, ...members })
  return db
}

const GIVING = (source: string) => `function (doc, req) { return ${source} }`

const COUNTING = `function (doc, req) {
  if (!doc) return [{ _id: req.id || req.uuid, n: 1, body: req.body }, 'made'];
  doc.n++;
  return [doc, { json: { n: doc.n } }];
}`

describe('an update function', () => {
  it('creates a document, and returns its id', async () => {
    const db = await databaseWith({ count: COUNTING })
    const reply = await db.post('_design/app/_update/count', 'text')
    expect([reply.status, reply.text]).toEqual([201, 'made'])
    const id = String(reply.headers['x-service-id'])
    expect(id).toMatch(/^[0-9a-f]{32}$/)
    const stored = await db.get(id)
    expect(stored.json).toEqual({ _id: id, _rev: reply.headers['x-service-update-newrev'], n: 1, body: 'text' })
  })

  it('creates the document that the path names, or a new revision of it', async () => {
    const db = await databaseWith({ count: COUNTING })
    for (const n of [1, 2, 3]) {
      const reply = await db.put('_design/app/_update/count/a/b', '')
      expect([reply.status, reply.headers['x-service-id']]).toEqual([201, 'a/b'])
      expect((await db.get('a%2Fb')).json).toMatchObject({ n, _rev: reply.headers['x-service-update-newrev'] })
    }
  })

  it.each(['POST', 'PUT', 'DELETE', 'COPY', 'PATCH'])('is called by %s, with and without an id', async (method) => {
    const db = await databaseWith({ count: COUNTING })
    for (const path of ['_design/app/_update/count', '_design/app/_update/count/a']) {
      expect((await db.request(method, path)).status).toBe(201)
    }
  })

  it.each(['GET', 'HEAD'])('is not called by %s', async (method) => {
    const db = await databaseWith({ count: COUNTING })
    const reply = await db.request(method, '_design/app/_update/count/a')
    expect(reply.status).toBe(405)
    expect(reply.headers.allow).toBe('POST,PUT,DELETE,COPY')
    if (method === 'GET') {
      expectRefusal(reply, 405, 'method_not_allowed', 'Update functions do not allow GET')
    }
    expect((await db.get('a')).status).toBe(404)
  })

  it('sees forms, bodies and queries', async () => {
    const db = await databaseWith({
      keep: GIVING("[{ _id: 'a', form: req.form, body: req.body, query: req.query }, '']"),
    })
    const reply = await db.post('_design/app/_update/keep?x=y', 'a=1&b=%C3%A9+b', {
      'Content-Type': 'application/x-www-form-urlencoded',
    })
    expect(reply.status).toBe(201)
    expect((await db.get('a')).json).toMatchObject({
      form: { a: '1', b: 'é b' },
      body: 'a=1&b=%C3%A9+b',
      query: { x: 'y' },
    })
  })

  it('may write another document than the one it got', async () => {
    const db = await databaseWith({ other: GIVING("[{ _id: 'other' }, '']") })
    await db.save('a', {})
    expect((await db.put('_design/app/_update/other/a', '')).headers['x-service-id']).toBe('other')
    expect((await db.get('other')).status).toBe(200)
  })

  it('keeps attachments when it returns the document', async () => {
    const db = await databaseWith({ touch: "function (doc) { doc.touched = true; return [doc, ''] }" })
    await db.put('a/att', 'hello', { 'Content-Type': 'text/plain' })
    expect((await db.put('_design/app/_update/touch/a', '')).status).toBe(201)
    expect((await db.get('a')).json).toMatchObject({ touched: true, _attachments: { att: { stub: true, revpos: 1 } } })
    expect((await db.get('a/att')).text).toBe('hello')
  })

  it('may add attachments, inline', async () => {
    const db = await databaseWith({
      add: GIVING("[{ _id: 'a', _attachments: { att: { content_type: 'text/plain', data: 'aGk=' } } }, '']"),
    })
    expect((await db.post('_design/app/_update/add', '')).status).toBe(201)
    expect((await db.get('a/att')).text).toBe('hi')
  })

  it('may delete', async () => {
    const db = await databaseWith({ remove: "function (doc) { doc._deleted = true; return [doc, 'gone'] }" })
    await db.save('a', {})
    const reply = await db.post('_design/app/_update/remove/a', '')
    expect([reply.status, reply.text]).toEqual([201, 'gone'])
    expectRefusal(await db.get('a'), 404, 'not_found', 'deleted')
  })

  it.each(['null', 'false', 'undefined', "'text'", '[]'])(
    'writes nothing where it gives %s for a document',
    async (nothing) => {
      const db = await databaseWith({ none: GIVING(`[${nothing}, 'answer']`) })
      const before = await db.state()
      const reply = await db.post('_design/app/_update/none', '')
      expect([reply.status, reply.text]).toEqual([200, 'answer'])
      expect([reply.headers['x-service-id'], reply.headers['x-service-update-newrev']]).toEqual([undefined, undefined])
      expect(await db.state()).toEqual(before)
    },
  )

  it('sets status and headers, and cannot remove those of the server', async () => {
    const db = await databaseWith({
      own: GIVING("[{ _id: 'a' }, { code: 202, headers: { 'X-Own': '1' }, body: 'x' }]"),
      same: GIVING("[{ _id: 'b' }, { headers: { 'x-service-id': 'mine' } }]"),
    })
    const own = await db.post('_design/app/_update/own', '')
    expect([own.status, own.headers['x-own'], own.headers['x-service-id']]).toEqual([202, '1', 'a'])
    expect(own.headers['x-service-update-newrev']).toMatch(/^1-/)
    expect((await db.post('_design/app/_update/same', '')).headers['x-service-id']).toBe('mine')
  })

  it('returns any id without splitting the header', async () => {
    const db = await databaseWith({ odd: GIVING("[{ _id: req.body }, '']") })
    const plain = await db.post('_design/app/_update/odd', 'é ü')
    expect(Buffer.from(String(plain.headers['x-service-id']), 'latin1').toString()).toBe('é ü')
    const split = await db.post('_design/app/_update/odd', 'a\r\nX-Other: b')
    expect([split.status, split.headers['x-service-id'], split.headers['x-other']]).toEqual([
      201,
      'a%0D%0AX-Other%3A%20b',
      undefined,
    ])
  })

  it('is validated like any write', async () => {
    const source = "function (newDoc, oldDoc) { if (newDoc.n > 2) throw { forbidden: 'Enough.' } }"
    const db = await databaseWith({ count: COUNTING }, { validate_doc_update: source })
    for (const status of [201, 201]) expect((await db.put('_design/app/_update/count/a', '')).status).toBe(status)
    expectRefusal(await db.put('_design/app/_update/count/a', ''), 403, 'forbidden', 'Enough.')
    expect((await db.get('a')).json).toMatchObject({ n: 2 })
  })

  it('ignores batch=ok', async () => {
    const db = await databaseWith({ count: COUNTING })
    expect((await db.put('_design/app/_update/count/a?batch=ok', '')).status).toBe(201)
    expect((await db.get('a')).status).toBe(200)
  })
})

describe('an update that fails', () => {
  it.each([
    ["[{}, '']", 400, 'bad_request', 'Document id must not be empty'],
    ["[{ _id: '' }, '']", 400, 'bad_request', 'Document id must not be empty'],
    ["[{ _id: '_odd' }, '']", 400, 'bad_request', 'Only reserved document ids may start with underscore.'],
    ["[{ _id: 'a', _odd: 1 }, '']", 500, 'doc_validation', 'Bad special document member: _odd'],
    ["[{ _id: 'a' }]", 500, 'render_error', 'undefined response from update function'],
    ["[{ _id: 'a' }, 7]", 500, 'render_error', 'undefined response from update function'],
    ["'text'", 500, 'render_error', 'undefined response from update function'],
  ])('by returning %s writes nothing', async (given, status, error, reason) => {
    const db = await databaseWith({ it: GIVING(given) })
    const before = await db.state()
    expectRefusal(await db.post('_design/app/_update/it', ''), status, error, reason)
    expect(await db.state()).toEqual(before)
  })

  it('by a response that cannot be sent writes nothing', async () => {
    const db = await databaseWith({ it: GIVING("[{ _id: 'a' }, { base64: '###' }]") })
    const reply = await db.post('_design/app/_update/it', '')
    expect([reply.status, reply.as<{ error: string }>().error]).toEqual([500, 'external_response_error'])
    expect((await db.get('a')).status).toBe(404)
  })

  it('in a conflict is not tried again', async () => {
    const db = await databaseWith({ again: GIVING("[{ _id: 'a' }, '']") })
    expect((await db.post('_design/app/_update/again', '')).status).toBe(201)
    expectConflict(await db.post('_design/app/_update/again', ''))
  })

  it.each([
    ['_design/nosuch/_update/it', 404, 'not_found', 'missing'],
    ['_design/app/_update', 404, 'update_error', 'Invalid path.'],
    ['_design/app/_update/nosuch', 404, 'not_found', 'missing updates function nosuch on design doc _design/app'],
  ])('%s', async (path, status, error, reason) => {
    const db = await databaseWith({})
    expectRefusal(await db.post(path, ''), status, error, reason)
  })

  it('reports what it throws', async () => {
    const db = await databaseWith({
      it: "function () { throw ['error', 'forbidden', 'x'] }",
      odd: 'function () { x() }',
    })
    expectRefusal(await db.post('_design/app/_update/it', ''), 403, 'forbidden', 'x')
    const odd = await db.post('_design/app/_update/odd', '')
    expect([odd.status, odd.as<{ error: string }>().error]).toEqual([500, 'render_error'])
  })
})
