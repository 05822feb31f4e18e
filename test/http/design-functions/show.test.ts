import { describe, expect, it } from 'vitest'
import { expectRefusal, type Reply, serverOfFile, type TestDatabase } from '../../support/client.ts'

const client = serverOfFile()

async function databaseWith(shows: Record<string, string>, members: object = {}): Promise<TestDatabase> {
  const db = await client().database()
  await db.save('_design/app', { shows, ...members })
  return db
}

const GIVING = (source: string) => `function (doc, req) { return ${source} }`

function typeOf(reply: Reply): string | undefined {
  return reply.headers['content-type']
}

describe('a show function', () => {
  it('is called with the document and the request', async () => {
    const db = await databaseWith({ both: GIVING('{ json: { doc: doc, id: req.id } }') })
    const first = await db.save('a', { n: 1 })
    const rev = await db.save('a', { _rev: first, n: 2 })
    const ids = [rev.split('-')[1], first.split('-')[1]]
    expect((await db.get('_design/app/_show/both/a')).json).toEqual({
      doc: { _id: 'a', _rev: rev, n: 2, _revisions: { start: 2, ids } },
      id: 'a',
    })
  })

  it('receives conflicts and attachments', async () => {
    const db = await databaseWith({ doc: GIVING('{ json: doc }') })
    await db.replicate({ _id: 'a', _rev: '1-a' }, { _id: 'a', _rev: '1-b' })
    expect((await db.get('_design/app/_show/doc/a')).json).toMatchObject({ _rev: '1-b', _conflicts: ['1-a'] })
    await db.put('b/att', 'hello', { 'Content-Type': 'text/plain' })
    expect((await db.get('_design/app/_show/doc/b')).json).toMatchObject({
      _attachments: { att: { stub: true, length: 5, content_type: 'text/plain' } },
    })
  })

  it('is called with null when there is no document, and receives its id', async () => {
    const db = await databaseWith({ both: GIVING('{ json: [doc, req.id] }') })
    await db.saveAndRemove('gone', {})
    expect((await db.get('_design/app/_show/both')).json).toEqual([null, null])
    expect((await db.get('_design/app/_show/both/')).json).toEqual([null, null])
    expect((await db.get('_design/app/_show/both/nosuch')).json).toEqual([null, 'nosuch'])
    expect((await db.get('_design/app/_show/both/gone')).json).toEqual([null, 'gone'])
  })

  it('takes an id with slashes, escaped or not', async () => {
    const db = await databaseWith({ id: GIVING('[doc && doc._id, req.id].join(" ")') })
    await db.save('a%2Fb', {})
    for (const path of ['a/b', 'a%2Fb']) {
      expect((await db.get(`_design/app/_show/id/${path}`)).text).toBe('a/b a/b')
    }
    expect((await db.get('_design/app/_show/id/_design/app')).text).toBe('_design/app _design/app')
  })

  it('runs for every method', async () => {
    const db = await databaseWith({ method: GIVING('req.method') })
    for (const method of ['GET', 'POST', 'PUT', 'DELETE', 'COPY', 'PATCH', 'OPTIONS']) {
      expect((await db.request(method, '_design/app/_show/method')).text).toBe(method)
    }
    const head = await db.head('_design/app/_show/method')
    expect([head.status, head.text]).toEqual([200, ''])
  })

  it('sees its design document as this, and its modules', async () => {
    const db = await databaseWith(
      { name: "function () { return this.greeting + require('lib/names').first }" },
      { greeting: 'Hello ', lib: { names: "exports.first = 'Ada'" } },
    )
    expect((await db.get('_design/app/_show/name')).text).toBe('Hello Ada')
  })

  it.each([
    ["'<b>text</b>'", 200, 'text/html; charset=utf-8', '<b>text</b>'],
    ["{ body: 'text', headers: { 'content-type': 'text/plain' } }", 200, 'text/plain', 'text'],
    ['{ code: 418, json: { tea: true } }', 418, 'application/json', '{"tea":true}\n'],
    ["{ base64: 'aGk=' }", 200, 'application/binary', 'hi'],
    ['undefined', 200, 'application/json', ''],
    ['null', 200, 'application/json', ''],
    ["''", 200, 'application/json', ''],
    ["{ code: 302, headers: { Location: '/elsewhere' } }", 302, 'application/json', ''],
  ])('may answer with %s', async (source, status, type, text) => {
    const db = await databaseWith({ it: GIVING(source) })
    const reply = await db.get('_design/app/_show/it')
    expect([reply.status, reply.text]).toEqual([status, text])
    if (text !== '') expect(typeOf(reply)).toBe(type)
    expect(reply.headers.vary).toBe('Accept')
    expect(reply.headers.etag).toMatch(/^"[0-9A-Z]+"$/)
  })

  it.each(['[1]', '7', 'true'])('may not answer with %s', async (source) => {
    const db = await databaseWith({ it: GIVING(source) })
    expectRefusal(await db.get('_design/app/_show/it'), 500, 'render_error', 'undefined response from show function')
  })

  it('may set headers, but not those of the server, and cannot split one', async () => {
    const db = await databaseWith({
      own: GIVING("{ body: 'x', headers: { 'X-Own': 'é', etag: 'mine', vary: 'mine', 'Content-Length': '999' } }"),
      split: GIVING("{ body: 'x', headers: { 'X-Own': 'a\\r\\n\\r\\nHTTP/1.1 200 OK' } }"),
    })
    const { headers, text } = await db.get('_design/app/_show/own')
    expect(Buffer.from(String(headers['x-own']), 'latin1').toString()).toBe('é')
    expect([headers.vary, headers['content-length'], text]).toEqual(['Accept', '1', 'x'])
    expect(headers.etag).not.toBe('mine')
    const split = await db.get('_design/app/_show/split')
    expect([split.status, split.as<{ error: string }>().error]).toEqual([500, 'external_response_error'])
  })

  it('may send text in pieces', async () => {
    const db = await databaseWith({
      sent: "function () { start({ 'X-Own': '1' }); send('a'); send('b'); return 'c' }",
    })
    const reply = await db.get('_design/app/_show/sent')
    expect([reply.text, reply.headers['x-own']]).toEqual(['abc', '1'])
  })

  it('chooses a format by what the client accepts', async () => {
    const db = await databaseWith({
      both: `function (doc) {
        provides('html', function () { return '<p>' + doc.n });
        provides('json', function () { return { json: { n: doc.n } } });
      }`,
    })
    await db.save('a', { n: 7 })
    const html = await db.get('_design/app/_show/both/a', { Accept: 'text/html' })
    expect([typeOf(html), html.text]).toEqual(['text/html; charset=utf-8', '<p>7'])
    const json = await db.get('_design/app/_show/both/a', { Accept: 'application/json' })
    expect([typeOf(json), json.json]).toEqual(['application/json', { n: 7 }])
    const format = await db.get('_design/app/_show/both/a?format=json', { Accept: 'text/html' })
    expect(format.json).toEqual({ n: 7 })
    const none = await db.get('_design/app/_show/both/a', { Accept: 'image/png' })
    expect(none.status).toBe(406)
    expect(none.as<{ reason: string }>().reason).toContain('Content-Type image/png not supported, try one of: ')
  })

  it('is not JSON for a callback', async () => {
    await client().request('PUT', '/_config/httpd/allow_jsonp', { body: '"true"' })
    const db = await databaseWith({ it: GIVING("'plain'") })
    expect((await db.get('_design/app/_show/it?callback=f')).text).toBe('plain')
  })
})

describe('the ETag of a show', () => {
  it('saves the call while the client has the result', async () => {
    const db = await databaseWith({ it: GIVING("'text ' + req.uuid") })
    await db.save('a', {})
    const { etag } = (await db.get('_design/app/_show/it/a')).headers
    const again = await db.get('_design/app/_show/it/a', { 'If-None-Match': etag })
    expect([again.status, again.headers.etag, again.text]).toEqual([304, etag, ''])
    expect((await db.get('_design/app/_show/it/a?other=query', { 'If-None-Match': etag })).status).toBe(304)
  })

  it('changes with the document, the design document and what is accepted', async () => {
    const db = await databaseWith({ it: GIVING("'text'") })
    const rev = await db.save('a', {})
    const tag = async (headers = {}) => (await db.get('_design/app/_show/it/a', headers)).headers.etag
    const tags = [await tag(), await tag({ Accept: 'text/html' })]
    await db.save('a', { _rev: rev })
    tags.push(await tag())
    const { _rev } = (await db.get('_design/app')).as<{ _rev: string }>()
    await db.save('_design/app', { _rev, shows: { it: GIVING("'text'") } })
    tags.push(await tag())
    expect(new Set(tags).size).toBe(4)
  })
})

describe('a show that fails', () => {
  it.each([
    ['_design/nosuch/_show/it', 404, 'not_found', 'missing'],
    ['_design/app/_show', 404, 'show_error', 'Invalid path.'],
    ['_design/app/_show/nosuch', 404, 'not_found', 'missing shows function nosuch on design doc _design/app'],
    ['_design/app/_show/held', 404, 'not_found', 'missing shows function held on design doc _design/app'],
    ['_design/app/_show/toString', 404, 'not_found', 'missing shows function toString on design doc _design/app'],
    ['_design/app/_show/it?key=nojson', 400, 'bad_request', 'invalid_json'],
  ])('%s', async (path, status, error, reason) => {
    const db = await client().database()
    await db.save('_design/app', { shows: { it: GIVING("'x'"), held: { module: 'exports.x = 1' } } })
    expectRefusal(await db.get(path), status, error, reason)
  })

  it('reports a design document without shows, or a deleted one', async () => {
    const db = await client().database()
    const rev = await db.save('_design/app', {})
    const reason = 'missing shows function it on design doc _design/app'
    expectRefusal(await db.get('_design/app/_show/it'), 404, 'not_found', reason)
    await db.remove('_design/app', rev)
    expectRefusal(await db.get('_design/app/_show/it'), 404, 'not_found', 'deleted')
  })

  it.each([
    ["['error', 'bad_request', 'x']", 400, 'bad_request', 'x'],
    ["['error', 'unauthorized', 'x']", 401, 'unauthorized', 'x'],
    ["['error', 'forbidden', 'x']", 403, 'forbidden', 'x'],
    ["['error', 'not_found', 'x']", 404, 'not_found', 'x'],
    ["{ error: 'not_found', reason: 'x' }", 404, 'not_found', 'x'],
    ["['error', 'bad_ctype', 'x']", 415, 'bad_content_type', 'x'],
    ["['error', 'own_error', 'x']", 500, 'own_error', 'x'],
    ["['fatal', 'own_error', 'x']", 500, 'own_error', 'x'],
  ])('by throwing %s', async (thrown, status, error, reason) => {
    const db = await databaseWith({ it: `function () { throw ${thrown} }` })
    expectRefusal(await db.get('_design/app/_show/it'), status, error, reason)
  })

  it('by an error of the function reports it', async () => {
    const db = await databaseWith({ it: 'function (doc) { return doc.n }', wrong: 'function (doc) {', no: "'text'" })
    const thrown = await db.get('_design/app/_show/it')
    expect([thrown.status, thrown.as<{ error: string }>().error]).toEqual([500, 'render_error'])
    expect(thrown.as<{ reason: string }>().reason).toMatch(/^function raised error: TypeError/)
    for (const name of ['wrong', 'no']) {
      const reply = await db.get(`_design/app/_show/${name}`)
      expect([reply.status, reply.as<{ error: string }>().error]).toEqual([500, 'compilation_error'])
    }
  })

  it('for a missing document reports that', async () => {
    const db = await databaseWith({ it: 'function (doc) { return doc.n }' })
    expectRefusal(await db.get('_design/app/_show/it/nosuch'), 404, 'not_found', 'document not found')
  })

  it('in an unknown language', async () => {
    const db = await databaseWith({ it: 'x' }, { language: 'klingon' })
    expectRefusal(await db.get('_design/app/_show/it'), 500, 'unknown_query_language', 'klingon')
  })
})

describe('functions of design documents', () => {
  it('answer 404 when their handler is removed from the configuration', async () => {
    const db = await databaseWith({ it: GIVING("'x'") })
    const path = '/_config/httpd_design_handlers/_show'
    const value = (await client().request('GET', path)).text
    expect((await client().request('DELETE', path)).status).toBe(200)
    expectRefusal(await db.get('_design/app/_show/it'), 404, 'not_found', 'missing handler: _show')
    await client().request('PUT', path, { body: value })
    expect((await db.get('_design/app/_show/it')).status).toBe(200)
  })
})
