import { describe, expect, it } from 'vitest'
import { expectConflict, expectRefusal, serverOfFile, type TestDatabase } from '../../support/client.ts'

const client = serverOfFile()

const SHOWS = {
  request: 'function (doc, req) { return { json: req } }',
  text: "function (doc, req) { return 'shown ' + (doc ? doc._id : req.id) }",
}

async function databaseWith(rewrites: unknown, members: object = {}): Promise<TestDatabase> {
  const db = await client().database()
  await db.save('_design/app', { rewrites, shows: SHOWS, ...members })
  return db
}

async function setting(key: string, value: string | undefined): Promise<void> {
  const path = `/_config/httpd/${key}`
  if (value === undefined) await client().request('DELETE', path)
  else await client().request('PUT', path, { body: JSON.stringify(value) })
}

describe('a rewritten request', () => {
  it('is served by what the rule names', async () => {
    const db = await databaseWith(
      [
        { from: '', to: '_show/text/start' },
        { from: 'pages/:page', to: '_show/text/:page' },
        { from: 'rows', to: '_view/all', query: { limit: 1, reduce: false } },
      ],
      { views: { all: { map: 'function (doc) { emit(doc._id) }' } } },
    )
    await db.save('home', {})
    expect((await db.get('_design/app/_rewrite')).text).toBe('shown start')
    expect((await db.get('_design/app/_rewrite/')).text).toBe('shown start')
    expect((await db.get('_design/app/_rewrite/pages/home')).text).toBe('shown home')
    expect((await db.get('_design/app/_rewrite/rows?limit=5')).as<{ rows: unknown[] }>().rows).toHaveLength(1)
  })

  it('may be for any handler: documents, attachments, lists, the database', async () => {
    const db = await databaseWith(
      [
        { from: 'files/*', to: '*' },
        { from: 'docs/:id', to: '../../:id' },
        { from: 'db', to: '../..' },
        { from: 'all', to: '../../_all_docs', query: { include_docs: true } },
        { from: 'list', to: '_list/keys/_all_docs' },
      ],
      { lists: { keys: 'function () { var r, k = []; while (r = getRow()) k.push(r.key); return k.join() }' } },
    )
    const { _rev } = (await db.get('_design/app')).as<{ _rev: string }>()
    await db.put(`_design/app/css/main.css?rev=${_rev}`, 'body {}', { 'Content-Type': 'text/css' })
    const file = await db.get('_design/app/_rewrite/files/css/main.css')
    expect([file.headers['content-type'], file.text]).toEqual(['text/css', 'body {}'])
    await db.save('a', { n: 1 })
    expect((await db.get('_design/app/_rewrite/docs/a')).json).toMatchObject({ n: 1 })
    expect((await db.get('_design/app/_rewrite/db')).json).toMatchObject({ db_name: db.name })
    expect((await db.get('_design/app/_rewrite/all')).json).toMatchObject({ total_rows: 2, rows: [{ doc: {} }, {}] })
    expect((await db.get('_design/app/_rewrite/list')).text).toBe('_design/app,a')
  })

  it('keeps its method and body', async () => {
    const db = await databaseWith([{ from: 'docs/*', to: '../../*' }], {
      updates: { keep: "function (doc, req) { return [{ _id: 'kept', body: req.body }, req.method] }" },
    })
    const put = await db.put('_design/app/_rewrite/docs/a', { n: 1 })
    expect([put.status, put.json]).toEqual([201, { ok: true, id: 'a', rev: put.rev }])
    expectConflict(await db.put('_design/app/_rewrite/docs/a', { n: 2 }))
    expect((await db.request('HEAD', '_design/app/_rewrite/docs/a')).headers.etag).toBe(`"${put.rev}"`)
    expect((await db.copy('_design/app/_rewrite/docs/a', 'b')).status).toBe(201)
    expect((await db.delete(`_design/app/_rewrite/docs/a?rev=${put.rev}`)).status).toBe(200)
    const posted = await db.post('_design/app/_rewrite/docs/_design/app/_update/keep', 'text')
    expect(posted.text).toBe('POST')
    expect((await db.get('kept')).json).toMatchObject({ body: 'text' })
    expect((await db.request('PATCH', '_design/app/_rewrite/docs/a')).status).toBe(405)
  })

  it('keeps its original path in the request object', async () => {
    const db = await databaseWith([{ from: 'x/:id', to: '_show/request/:id', query: { set: 'rule' } }])
    const requested = `/${db.name}/_design/app/_rewrite/x/1?a=b`
    const { json } = await client().request('GET', requested, {
      headers: { 'X-Service-Requested-Path': '/forged', 'X-Other': 'y' },
    })
    expect(json).toMatchObject({
      id: '1',
      query: { a: 'b', id: '1', set: 'rule' },
      requested_path: [db.name, '_design', 'app', '_rewrite', 'x', '1?a=b'],
      path: [db.name, '_design', 'app', '_show', 'request', '1'],
      raw_path: `/${db.name}/_design/app/_show/request/1?a=b&id=1&set=rule`,
      headers: { 'x-service-requested-path': requested, 'X-Other': 'y' },
    })
  })

  it('may be rewritten again, up to a limit', async () => {
    const db = await databaseWith([
      { from: 'deep/*', to: '_rewrite/deeper/*' },
      { from: 'deeper/*', to: '_show/text/*' },
      { from: 'round', to: '_rewrite/round' },
    ])
    expect((await db.get('_design/app/_rewrite/deep/down')).text).toBe('shown down')
    expectRefusal(await db.get('_design/app/_rewrite/round'), 400, 'bad_request', 'Exceeded rewrite recursion limit')
    await setting('rewrite_limit', '1')
    expectRefusal(
      await db.get('_design/app/_rewrite/deep/down'),
      400,
      'bad_request',
      'Exceeded rewrite recursion limit',
    )
    expect((await db.get('_design/app/_rewrite/deeper/down')).text).toBe('shown down')
    await setting('rewrite_limit', undefined)
  })

  it('has the tag of what it leads to', async () => {
    const db = await databaseWith([{ from: 'docs/*', to: '../../*' }])
    const rev = await db.save('a', {})
    const reply = await db.get('_design/app/_rewrite/docs/a', { 'If-None-Match': `"${rev}"` })
    expect(reply.status).toBe(304)
  })

  it('keeps names with slashes and unusual characters', async () => {
    const db = await databaseWith([{ from: 'docs/:id', to: '../../:id' }])
    for (const id of ['a/b', 'ü b', '50%', 'a+b', '?#&=']) {
      const escaped = encodeURIComponent(id)
      await db.save(escaped, { it: id })
      expect((await db.get(`_design/app/_rewrite/docs/${escaped}`)).json).toMatchObject({ _id: id, it: id })
    }
  })
})

describe('a rewrite that fails', () => {
  it.each([
    [undefined, 'x', 404, 'rewrite_error', 'Invalid path.'],
    ['function () {}', 'x', 400, 'rewrite_error', 'Rewrite rules are a String. They must be a JSON Array.'],
    [[], 'x', 404, 'not_found', 'missing'],
    [[{ from: 'a', to: 'b' }], 'x', 404, 'not_found', 'missing'],
    [[{ from: 'x', to: '_nosuch' }], 'x', 404, 'not_found', 'missing handler: _nosuch'],
    [[{ from: 'x' }], 'y', 500, 'error', 'invalid_rewrite_target'],
    [
      [
        { from: 'a', to: '../../../b' },
        { from: 'x', to: 'y' },
      ],
      'x',
      500,
      'insecure_rewrite_rule',
      'too many ../.. segments',
    ],
  ])('%j', async (rewrites, path, status, error, reason) => {
    const db = await databaseWith(rewrites)
    expectRefusal(await db.get(`_design/app/_rewrite/${path}`), status, error, reason)
  })

  it('without a design document', async () => {
    const db = await client().database()
    expectRefusal(await db.get('_design/nosuch/_rewrite/x'), 404, 'not_found', 'missing')
  })

  it.each([
    ['of a text that doubles', { to: '_rewrite/x', query: { a: [':a', ':a'] } }, 'x?a=1'],
    ['of a key that doubles', { to: '_rewrite/x', query: { key: [':key', ':key'] } }, 'x?key=1'],
    ['of many variables', { to: '_show/request', query: { a: Array(10_000).fill(':b') } }, `x?b=${'b'.repeat(2000)}`],
    ['of many segments', { to: ':b/'.repeat(10_000) }, `x?b=${'b'.repeat(2000)}`],
  ])('for the length %s', async (_, rule, path) => {
    const db = await databaseWith([{ from: 'x', ...rule }])
    const reply = await db.get(`_design/app/_rewrite/${path}`)
    expectRefusal(reply, 414, 'too_long', 'the request entity is too long')
  })

  it('cannot leave the database by the path of a request, encoded or not', async () => {
    const db = await databaseWith([{ from: 'files/*', to: '*' }])
    for (const up of ['..', '%2e%2e', '.%2E']) {
      const reply = await db.get(`_design/app/_rewrite/files/${up}/${up}/${up}/_all_dbs`)
      expect([reply.status, reply.as<{ error: string }>().error]).toEqual([404, 'not_found'])
    }
  })
})

describe('insecure rewrites', () => {
  it('reach the server where the operator allows it', async () => {
    await setting('secure_rewrites', 'false')
    const db = await databaseWith([{ from: 'dbs', to: '../../../_all_dbs' }])
    expect((await db.get('_design/app/_rewrite/dbs')).json).toContain(db.name)
    await setting('secure_rewrites', 'true')
    expect((await db.get('_design/app/_rewrite/dbs')).status).toBe(500)
  })
})

describe('who sends a rewritten request', () => {
  it('keeps the user and its rights', async () => {
    const db = await databaseWith([
      { from: 'who', to: '_show/request' },
      { from: 'docs/*', to: '../../*' },
    ])
    const user = { name: 'ann', password: 'pass', roles: [], type: 'user' }
    await client().request('PUT', '/_users/org.service.user:ann', { body: user })
    await client().request('PUT', '/_config/admins/root', { body: '"top"' })
    const as = (name: string, password: string) => ({
      Authorization: `Basic ${Buffer.from(`${name}:${password}`).toString('base64')}`,
    })
    const who = await db.get('_design/app/_rewrite/who', as('ann', 'pass'))
    expect(who.as<{ userCtx: unknown }>().userCtx).toEqual({ db: db.name, name: 'ann', roles: [] })
    const reason = 'You are not a db or server admin.'
    const path = '_design/app/_rewrite/docs/_design/other'
    expectRefusal(await db.put(path, {}, as('ann', 'pass')), 401, 'unauthorized', reason)
    expect((await db.put(path, {}, as('root', 'top'))).status).toBe(201)
  })
})
