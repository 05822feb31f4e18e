import { connect } from 'node:net'
import { describe, expect, it, onTestFinished } from 'vitest'
import { Client, expectRefusal, type Reply, type RequestOptions } from '../../support/client.ts'
import { startService } from '../../support/service.ts'
import { until } from '../../support/until.ts'

const WRONG = 'Name or password is incorrect.'
const FORM = { 'Content-Type': 'application/x-www-form-urlencoded' }
const CLEARED = 'AuthSession=; Version=1; Path=/; HttpOnly'
const PERSISTENT = /^AuthSession=[\w-]+; Version=1; Expires=[^;]+ GMT; Max-Age=\d+; Path=\/; HttpOnly$/

interface Started {
  readonly client: Client
  readonly admin: { readonly Authorization: string }
  ask(method: string, path: string, options?: RequestOptions): Promise<Reply>
}

function basic(name: string, password: string): { Authorization: string } {
  return { Authorization: `Basic ${Buffer.from(`${name}:${password}`).toString('base64')}` }
}

/** A server with the administrator root and the user bob. */
async function start(settings: Record<string, Record<string, string>> = {}): Promise<Started> {
  const service = await startService({ settings: { admins: { root: 'top' }, ...settings } })
  const client = new Client(service.url)
  onTestFinished(() => client.close())
  const admin = basic('root', 'top')
  const bob = { name: 'bob', password: 'päss wörd', roles: ['staff'], type: 'user' }
  const reply = await client.request('PUT', '/_users/org.service.user:bob', { headers: admin, body: bob })
  expect(reply.status, reply.text).toBe(201)
  return { client, admin, ask: (method, path, options) => client.request(method, path, options) }
}

function cookieOf(reply: Reply): string {
  const [cookie = ''] = reply.headers['set-cookie'] ?? []
  return cookie
}

async function login({ ask }: Started, path = '/_session', name = 'bob', password = 'päss wörd'): Promise<Reply> {
  return ask('POST', path, { headers: FORM, body: new URLSearchParams({ name, password }).toString() })
}

describe('POST /_session', () => {
  it.each([
    ['a form', FORM, 'name=bob&password=p%C3%A4ss+w%C3%B6rd'],
    [
      'a form that names its charset',
      { 'Content-Type': `${FORM['Content-Type']}; charset=utf-8` },
      'name=bob&password=päss+wörd',
    ],
    ['JSON', {}, { name: 'bob', password: 'päss wörd' }],
    ['JSON of newer clients', {}, { username: 'bob', password: 'päss wörd' }],
  ])('sets a cookie for %s', async (_, headers, body) => {
    const { ask } = await start()
    const reply = await ask('POST', '/_session', { headers, body })
    expect([reply.status, reply.text]).toEqual([200, '{"ok":true,"name":"bob","roles":["staff"]}\n'])
    expect(cookieOf(reply)).toMatch(PERSISTENT)
    const session = await ask('GET', '/_session', { headers: { Cookie: cookieOf(reply).split(';')[0] } })
    expect(session.json).toEqual({
      ok: true,
      userCtx: { name: 'bob', roles: ['staff'] },
      info: {
        authentication_db: '_users',
        authentication_handlers: ['oauth', 'cookie', 'default'],
        authenticated: 'cookie',
      },
    })
  })

  it('creates a session for administrators, by their name', async () => {
    const started = await start()
    expect((await login(started, '/_session', 'root', 'top')).json).toEqual({
      ok: true,
      name: 'root',
      roles: ['_admin'],
    })
  })

  it.each([
    ['a wrong password', FORM, 'name=bob&password=no'],
    ['an unknown name', FORM, 'name=nobody&password=no'],
    ['nothing', FORM, ''],
    ['another type', { 'Content-Type': 'text/plain' }, 'name=bob&password=p%C3%A4ss+w%C3%B6rd'],
    ['an empty object', {}, '{}'],
  ])('refuses %s, clears the cookie and gives no hint', async (_, headers, body) => {
    const { ask } = await start({ httpd: { 'WWW-Authenticate': 'Basic realm="x"' } })
    const reply = await ask('POST', '/_session', { headers: { Accept: 'text/html', ...headers }, body })
    expect([reply.status, reply.json]).toEqual([401, { error: 'unauthorized', reason: WRONG }])
    expect([cookieOf(reply), reply.headers['www-authenticate'], reply.headers.location]).toEqual([
      CLEARED,
      undefined,
      undefined,
    ])
  })

  it.each(['{', '[]', '5', '{"name":5,"password":"x"}', '{"name":"bob","password":null}', '{"name":["bob"]}'])(
    'refuses %s as a body',
    async (body) => {
      const { ask } = await start()
      const reply = await ask('POST', '/_session', { body })
      expect([reply.status, reply.as<{ error: string }>().error]).toEqual([400, 'bad_request'])
    },
  )

  it('refuses a body that is too large', async () => {
    const { ask } = await start()
    const body = `name=bob&password=${'x'.repeat(1024 * 1024)}`
    expectRefusal(
      await ask('POST', '/_session', { headers: FORM, body }),
      413,
      'too_large',
      'the request entity is too large',
    )
  })

  it('redirects to a page of this server', async () => {
    const started = await start()
    const reply = await login(started, '/_session?next=/_utils/x%3Fa%3Db')
    expect([reply.status, reply.headers.location]).toEqual([302, `http://${started.client.host}/_utils/x?a=b`])
    expect(reply.json).toEqual({ ok: true, name: 'bob', roles: ['staff'] })
    expect(cookieOf(reply)).toMatch(/^AuthSession=[\w-]+;/)
    const umlaut = await login(started, '/_session?next=/caf%C3%A9%20x')
    expect(umlaut.headers.location).toBe(`http://${started.client.host}/caf%C3%A9%20x`)
    const failed = await login(started, '/_session?next=/yes&fail=/no', 'bob', 'wrong')
    expect([failed.status, failed.headers.location]).toEqual([302, `http://${started.client.host}/no`])
    expect([failed.json, cookieOf(failed)]).toEqual([{ error: 'unauthorized', reason: WRONG }, CLEARED])
  })

  it.each([
    '//evil.example',
    '/\\evil.example',
    '.evil.example',
    '@evil.example',
    'http://evil.example/',
    '',
    '/x%0d%0aSet-Cookie:a=b',
    '/%09/evil.example',
    '/x%00',
  ])('redirects nowhere else: next=%s', async (page) => {
    const started = await start()
    for (const name of ['next', 'fail']) {
      const reply = await login(started, `/_session?${name}=${page}`)
      expect([reply.status, reply.as<{ error: string }>().error]).toEqual([400, 'bad_request'])
      expect(reply.headers.location).toBeUndefined()
    }
    expect((await started.ask('DELETE', `/_session?next=${page}`, { headers: started.admin })).status).toBe(400)
  })
})

describe('GET /_session', () => {
  it('returns the user, and how it was authenticated', async () => {
    const { ask, admin } = await start()
    const info = { authentication_db: '_users', authentication_handlers: ['oauth', 'cookie', 'default'] }
    expect((await ask('GET', '/_session')).json).toEqual({ ok: true, userCtx: { name: null, roles: [] }, info })
    expect((await ask('GET', '/_session', { headers: admin })).json).toEqual({
      ok: true,
      userCtx: { name: 'root', roles: ['_admin'] },
      info: { ...info, authenticated: 'default' },
    })
    expect((await ask('HEAD', '/_session')).status).toBe(200)
  })

  it('asks for a login when basic=true', async () => {
    const { ask, admin } = await start()
    expectRefusal(await ask('GET', '/_session?basic=true'), 401, 'unauthorized', 'Please login.')
    expect((await ask('GET', '/_session?basic=true', { headers: admin })).status).toBe(200)
  })

  it('renews the cookie of a session, and sets none without one', async () => {
    const started = await start()
    const Cookie = cookieOf(await login(started)).split(';')[0]
    expect(cookieOf(await started.ask('GET', '/_session', { headers: { Cookie } }))).toMatch(/^AuthSession=[\w-]+;/)
    expect(cookieOf(await started.ask('GET', '/', { headers: { Cookie } }))).toBe('')
    expect(cookieOf(await started.ask('GET', '/_session', { headers: started.admin }))).toBe('')
  })
})

describe('DELETE /_session', () => {
  it('clears the cookie', async () => {
    const started = await start()
    const Cookie = cookieOf(await login(started)).split(';')[0]
    const reply = await started.ask('DELETE', '/_session', { headers: { Cookie } })
    expect([reply.status, reply.text, cookieOf(reply)]).toEqual([200, '{"ok":true}\n', CLEARED])
    const next = await started.ask('DELETE', '/_session?next=/x', { headers: { Cookie } })
    expect([next.status, next.headers.location]).toEqual([302, `http://${started.client.host}/x`])
  })

  it('clears an invalid cookie, also when require_valid_user is set', async () => {
    const past = `AuthSession=${Buffer.from('bob:5B000000:01234567890123456789').toString('base64url')}`
    for (const settings of [{}, { service_httpd_auth: { require_valid_user: 'true' } }]) {
      const started = await start(settings)
      for (const Cookie of [past, 'AuthSession=xyz', 'a=b; AuthSession=']) {
        const reply = await started.ask('DELETE', '/_session', { headers: { Cookie } })
        expect([reply.status, reply.text, cookieOf(reply)]).toEqual([200, '{"ok":true}\n', CLEARED])
      }
      expect((await started.ask('DELETE', '/_session', { headers: { Cookie: 'a=b' } })).status).toBe(401)
      expect((await started.ask('DELETE', '/_config/a/b', { headers: { Cookie: past } })).status).toBe(401)
    }
  })

  it('is never refused, and allowed in open mode', async () => {
    const started = await start()
    expect((await started.ask('DELETE', '/_session')).status).toBe(401)
    const client = new Client((await startService()).url)
    onTestFinished(() => client.close())
    expect((await client.request('DELETE', '/_session')).text).toBe('{"ok":true}\n')
  })
})

describe('a cookie', () => {
  it('that is malformed is refused everywhere, one that is forged is ignored', async () => {
    const started = await start()
    for (const [method, path] of [
      ['GET', '/'],
      ['POST', '/_session'],
      ['GET', '/none'],
    ] as const) {
      const reply = await started.ask(method, path, { headers: { Cookie: 'AuthSession=xyz' } })
      expectRefusal(reply, 400, 'bad_request', 'Malformed AuthSession cookie. Please clear your cookies.')
    }
    const forged = Buffer.from('root:FFFFFFF:01234567890123456789').toString('base64url')
    const reply = await started.ask('GET', '/_session', { headers: { Cookie: `AuthSession=${forged}` } })
    expect(reply.as<{ userCtx: unknown }>().userCtx).toEqual({ name: null, roles: [] })
  })

  it('is renewed on every reply, errors too, after a tenth of its lifetime', async () => {
    const started = await start({ service_httpd_auth: { timeout: '20' } })
    const Cookie = cookieOf(await login(started)).split(';')[0]
    const renewed = async (path: string) => cookieOf(await started.ask('GET', path, { headers: { Cookie } }))
    expect(await renewed('/')).toBe('')
    await until(async () => (await renewed('/')) !== '', 10_000)
    for (const path of ['/', '/none', '/_uuids', '/_config']) {
      expect(await renewed(path), path).toMatch(PERSISTENT)
    }
    const own = await started.ask('DELETE', '/_session', { headers: { Cookie } })
    expect(own.headers['set-cookie']).toEqual([CLEARED])
  })
})

describe('a refused request', () => {
  it.each([
    ['as it is', {}, {}, 401, {}],
    ['for people too, as browsers ask', {}, { Accept: 'text/html,*/*;q=0.8' }, 401, {}],
    [
      'with the challenge that it asks for',
      {},
      { 'X-Service-WWW-Authenticate': 'Cookie' },
      401,
      { 'www-authenticate': 'Cookie' },
    ],
    [
      'with it by its other name',
      {},
      { 'X-CouchDB-WWW-Authenticate': 'Cookie' },
      401,
      { 'www-authenticate': 'Cookie' },
    ],
    [
      'with the challenge of the operator',
      { httpd: { 'WWW-Authenticate': 'Basic realm="r"' } },
      {},
      401,
      { 'www-authenticate': 'Basic realm="r"' },
    ],
  ])('is sent %s', async (_, settings, headers, status, expected) => {
    const { ask } = await start(settings)
    const reply = await ask('GET', '/_config', { headers })
    expect(reply.status).toBe(status)
    expect(reply.headers).toMatchObject(expected)
    if (!('www-authenticate' in expected)) expect(reply.headers['www-authenticate']).toBeUndefined()
    expect(reply.json).toEqual({ error: 'unauthorized', reason: 'You are not a server admin.' })
  })

  it('redirects browsers to the login page', async () => {
    const { ask, client } = await start()
    const reply = await ask('GET', '/_config?x=y', { headers: { Accept: 'text/html' } })
    const query = 'return=%2F_config&reason=You%20are%20not%20a%20server%20admin.'
    expect([reply.status, reply.headers.location]).toEqual([302, `http://${client.host}/_utils/session.html?${query}`])
    expect(reply.json).toEqual({ error: 'unauthorized', reason: 'You are not a server admin.' })
  })

  it('asks for Basic when require_valid_user is set, and login requests pass', async () => {
    const settings = { service_httpd_auth: { require_valid_user: 'true' } }
    const started = await start(settings)
    const reply = await started.ask('GET', '/')
    expect([reply.status, reply.headers['www-authenticate']]).toEqual([401, 'Basic realm="server"'])
    expect(reply.json).toEqual({ error: 'unauthorized', reason: 'Authentication required.' })
    expect((await login(started)).status).toBe(200)
  })

  it('cannot be split by its own headers', async () => {
    const { client } = await start()
    const port = Number(client.url.port)
    const received = await new Promise<string>((resolve) => {
      let text = ''
      const socket = connect(port, '127.0.0.1', () =>
        socket.write(
          'GET /_config HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Service-WWW-Authenticate: a\x01b\r\n\r\n',
        ),
      )
      socket
        .on('data', (data) => (text += data))
        .on('close', () => resolve(text))
        .on('error', () => resolve(text))
    })
    expect(received).not.toContain('\x01')
  })
})

describe('the users database', () => {
  const bob = basic('bob', 'päss wörd')
  const path = '/_users/org.service.user:bob'
  const missing = { error: 'not_found', reason: 'missing' }

  it('shows users to themselves, hides them from others', async () => {
    const { ask, admin } = await start()
    expect((await ask('GET', path, { headers: bob })).json).toMatchObject({
      name: 'bob',
      derived_key: expect.any(String),
    })
    expect((await ask('GET', path, { headers: admin })).status).toBe(200)
    for (const hidden of [path, `${path}?open_revs=all`, `${path}/x`]) {
      const there = await ask('GET', hidden)
      const absent = await ask('GET', hidden.replace('bob', 'nobody'))
      expect([there.status, there.text]).toEqual([absent.status, absent.text])
    }
    expect((await ask('GET', path)).json).toEqual(missing)
    const bulk = await ask('POST', '/_users/_bulk_get', {
      body: { docs: [{ id: 'org.service.user:bob' }] },
      headers: { Accept: 'application/json' },
    })
    expect(bulk.text).not.toContain('derived_key')
  })

  it('keeps its listings for administrators', async () => {
    const { ask, admin } = await start()
    for (const [method, body] of [
      ['GET', undefined],
      ['POST', { keys: ['org.service.user:bob'] }],
    ] as const) {
      const reply = await ask(method, '/_users/_all_docs?include_docs=true', { headers: bob, body })
      expectRefusal(reply, 403, 'forbidden', 'Only admins can access _all_docs of system databases.')
    }
    expectRefusal(
      await ask('GET', '/_users/_changes', { headers: bob }),
      401,
      'unauthorized',
      'You are not a db or server admin.',
    )
    for (const action of ['_view/x', '_info', '_show/x', '_rewrite/x']) {
      const reply = await ask('GET', `/_users/_design/_auth/${action}`, { headers: bob })
      expectRefusal(reply, 403, 'forbidden', 'Only admins can access design document actions for system databases.')
    }
    expect((await ask('GET', '/_users/_all_docs', { headers: admin })).status).toBe(200)
    expect((await ask('GET', '/_users')).status).toBe(200)
  })

  it('is created again after it is deleted', async () => {
    const { ask, admin } = await start()
    expect((await ask('DELETE', '/_users', { headers: admin })).status).toBe(200)
    expect((await ask('GET', '/_users')).json).toMatchObject({ db_name: '_users', doc_count: 1 })
    expectRefusal(await ask('GET', '/', { headers: bob }), 401, 'unauthorized', WRONG)
  })

  it('stores no plain password', async () => {
    const { ask, admin } = await start()
    const reply = await ask('GET', path, { headers: admin })
    expect(reply.text).not.toContain('päss')
    expect(reply.json).toMatchObject({ password_scheme: 'pbkdf2', pbkdf2_prf: 'sha256', iterations: 10 })
  })
})
