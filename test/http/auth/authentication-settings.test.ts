/** Settings of authentication, changed while the server runs: each does what it says from the next request on. */
import { describe, expect, it, onTestFinished } from 'vitest'
import { Client, expectRefusal, type Reply } from '../../support/client.ts'
import { startService } from '../../support/service.ts'
import { HAS_SEVERAL_SERVERS, TEST_NODES } from '../../support/test-service.ts'

const SECTION = 'service_httpd_auth'

class Server {
  readonly #client: Client

  static async start(settings: Record<string, Record<string, string>> = {}): Promise<Server> {
    const service = await startService({ settings: { admins: { root: 'top' }, ...settings } })
    const client = new Client(service.url)
    onTestFinished(() => client.close())
    return new Server(client)
  }

  constructor(client: Client) {
    this.#client = client
  }

  asAdmin(method: string, path: string, body?: unknown): Promise<Reply> {
    return this.as('root:top', method, path, body)
  }

  as(login: string | undefined, method: string, path: string, body?: unknown): Promise<Reply> {
    const Authorization = login === undefined ? undefined : `Basic ${btoa(login)}`
    return this.#client.request(method, path, { headers: { Authorization }, body })
  }

  with(headers: Record<string, string>, path = '/_session'): Promise<Reply> {
    return this.#client.request('GET', path, { headers })
  }

  async set(key: string, value: string, section = SECTION): Promise<void> {
    const reply = await this.asAdmin('PUT', `/_config/${section}/${key}`, JSON.stringify(value))
    expect(reply.status, reply.text).toBe(200)
  }

  async register(name: string): Promise<Record<string, unknown>> {
    const path = `/_users/org.service.user:${name}`
    const reply = await this.asAdmin('PUT', path, { name, password: 'pass', roles: [], type: 'user' })
    expect(reply.status, reply.text).toBe(201)
    return (await this.asAdmin('GET', path)).as<Record<string, unknown>>()
  }

  login(name: string, password = 'pass'): Promise<Reply> {
    return this.#client.request('POST', '/_session', { body: { name, password } })
  }
}

const cookieOf = (reply: Reply) => reply.headers['set-cookie']?.[0] ?? ''

describe('a setting of authentication', () => {
  it('password_scheme, pbkdf2_prf and iterations apply to new users', async () => {
    const server = await Server.start()
    const key = (digits: number) => expect.stringMatching(new RegExp(`^[0-9a-f]{${digits}}$`))
    const pbkdf2 = { password_scheme: 'pbkdf2', iterations: 10 }
    const ann = await server.register('ann')
    expect(ann).toMatchObject({ ...pbkdf2, pbkdf2_prf: 'sha256', derived_key: key(64), salt: key(32) })
    await server.set('pbkdf2_prf', 'sha512')
    expect(await server.register('dan')).toMatchObject({ ...pbkdf2, pbkdf2_prf: 'sha512', derived_key: key(128) })
    await server.set('pbkdf2_prf', 'sha')
    const old = await server.register('eli')
    expect(old).toMatchObject({ ...pbkdf2, derived_key: key(40) })
    expect(old).not.toHaveProperty('pbkdf2_prf')
    const wrong = await server.asAdmin('PUT', `/_config/${SECTION}/pbkdf2_prf`, '"md5"')
    expect(wrong.status).toBe(400)
    await server.set('iterations', '20')
    expect(await server.register('bob')).toMatchObject({ password_scheme: 'pbkdf2', iterations: 20 })
    await server.set('password_scheme', 'simple')
    expect(await server.register('cai')).toMatchObject({ password_scheme: 'simple', password_sha: expect.any(String) })
    for (const name of ['ann', 'bob', 'cai', 'dan', 'eli']) expect((await server.login(name)).status).toBe(200)
  })

  it('admin_password_scheme applies to new administrators', async () => {
    const server = await Server.start()
    await server.set('eve', 'secret', 'admins')
    await server.set('admin_password_scheme', 'pbkdf2')
    await server.set('kim', 'secret', 'admins')
    const admins = (await server.asAdmin('GET', '/_config/admins')).json
    expect(admins).toMatchObject({
      eve: expect.stringMatching(/^-hashed-[0-9a-f]{40},[0-9a-f]{32}$/),
      kim: expect.stringMatching(/^-pbkdf2-[0-9a-f]{40},[0-9a-f]{32},10$/),
    })
    for (const name of ['eve', 'kim']) expect((await server.as(`${name}:secret`, 'GET', '/_config')).status).toBe(200)
  })

  it('min_iterations and max_iterations bound the accepted hashes', async () => {
    const server = await Server.start()
    await server.register('ann')
    await server.set('min_iterations', '11')
    const low = await server.as('ann:pass', 'GET', '/')
    expectRefusal(low, 403, 'forbidden', 'Iteration count is too low for this server')
    await server.set('min_iterations', '1')
    await server.set('max_iterations', '9')
    const high = await server.as('ann:pass', 'GET', '/')
    expectRefusal(high, 403, 'forbidden', 'Iteration count is too high for this server')
  })

  it('same_site, allow_persistent_cookies and timeout apply to the cookie', async () => {
    const server = await Server.start()
    await server.register('ann')
    const persistent = (seconds: number) =>
      new RegExp(`; Expires=\\w{3}, \\d\\d-\\w{3}-\\d{4} [\\d:]{8} GMT; Max-Age=${seconds};`)
    expect(cookieOf(await server.login('ann'))).toMatch(persistent(600))
    await server.set('timeout', '77')
    expect(cookieOf(await server.login('ann'))).toMatch(persistent(77))
    await server.set('allow_persistent_cookies', 'false')
    expect(cookieOf(await server.login('ann'))).toMatch(/^AuthSession=[\w-]+; Version=1; Path=\/; HttpOnly$/)
    await server.set('same_site', 'strict')
    expect(cookieOf(await server.login('ann'))).toMatch(/; SameSite=Strict$/)
  })

  it('secret ends all sessions when it changes', async () => {
    const server = await Server.start()
    await server.register('ann')
    const Cookie = cookieOf(await server.login('ann')).split(';')[0] ?? ''
    expect((await server.with({ Cookie })).json).toMatchObject({ userCtx: { name: 'ann' } })
    await server.set('secret', 'another one')
    expect((await server.with({ Cookie })).json).toMatchObject({ userCtx: { name: null } })
  })

  // Each server counts wrong passwords for itself.
  it.skipIf(HAS_SEVERAL_SERVERS)('login_free_tries and the delays slow down guessing, and nothing else', async () => {
    const server = await Server.start({ [SECTION]: { login_free_tries: '1', login_delay_ms: '300' } })
    await server.register('ann')
    const timed = async (name: string, password: string) => {
      const begunMs = performance.now()
      const { status } = await server.login(name, password)
      return { status, ms: performance.now() - begunMs }
    }
    await timed('ann', 'wrong')
    const second = await timed('ann', 'wrong')
    expect(second.status).toBe(401)
    expect(second.ms).toBeGreaterThan(250)
    expect((await timed('ann', 'pass')).status).toBe(200)
  })

  it('public_fields and users_db_public make fields public', async () => {
    const server = await Server.start()
    await server.register('ann')
    const path = '/_users/org.service.user:ann'
    expect((await server.as(undefined, 'GET', path)).status).toBe(404)
    await server.set('public_fields', 'name, type')
    expect((await server.as(undefined, 'GET', path)).json).toMatchObject({ name: 'ann', type: 'user' })
    expect((await server.as(undefined, 'GET', '/_users/_all_docs')).status).toBe(403)
    await server.set('users_db_public', 'true')
    const list = await server.as(undefined, 'GET', '/_users/_all_docs?include_docs=true')
    expect(list.json).toMatchObject({ rows: [{ doc: null }, { doc: { name: 'ann', type: 'user' } }] })
  })

  it('x_auth_ names and proxy_use_secret apply to the proxy handler', async () => {
    const server = await Server.start({ httpd: { authentication_handlers: 'proxy, default' } })
    const nameOf = async (headers: Record<string, string>) =>
      (await server.with(headers)).as<{ userCtx: { name: string | null } }>().userCtx.name
    expect(await nameOf({ 'X-Auth-CouchDB-UserName': 'ann' })).toBe('ann')
    await server.set('x_auth_username', 'X-Me')
    expect(await nameOf({ 'X-Me': 'ann' })).toBe('ann')
    expect(await nameOf({ 'X-Auth-CouchDB-UserName': 'ann' })).toBeNull()
    await server.set('proxy_use_secret', 'true')
    expect(await nameOf({ 'X-Me': 'ann' })).toBeNull()
  })

  it('authentication_handlers without any usable handler is refused', async () => {
    const server = await Server.start()
    for (const list of ['', '{service_httpd_auth, other_handler}', 'cookie, other', '{', 'ldap']) {
      const reply = await server.asAdmin('PUT', '/_config/httpd/authentication_handlers', JSON.stringify(list))
      expect([reply.status, reply.json], list).toMatchObject([400, { error: 'bad_request' }])
    }
    expect((await server.asAdmin('GET', '/_config')).status).toBe(200)
    await server.set('authentication_handlers', '{couch_httpd_auth, default_authentication_handler}', 'httpd')
    expect((await server.asAdmin('GET', '/_session')).json).toMatchObject({
      info: { authentication_handlers: ['default'] },
    })
  })

  it('authentication_handlers has its default when it is deleted', async () => {
    const server = await Server.start()
    expect((await server.asAdmin('DELETE', '/_config/httpd/authentication_handlers')).status).toBe(200)
    expect((await server.asAdmin('GET', '/_session')).json).toMatchObject({
      info: { authentication_handlers: ['oauth', 'cookie', 'default'], authenticated: 'default' },
    })
  })

  it('WWW-Authenticate and authentication_redirect apply to 401 replies', async () => {
    const server = await Server.start()
    await server.set('WWW-Authenticate', 'Basic realm="mine"', 'httpd')
    expect((await server.with({}, '/_config')).headers['www-authenticate']).toBe('Basic realm="mine"')
    await server.asAdmin('DELETE', '/_config/httpd/WWW-Authenticate')
    await server.set('authentication_redirect', '/login')
    const { status, headers } = await server.with({ Accept: 'text/html' }, '/_config')
    expect([status, headers.location]).toEqual([302, expect.stringMatching(/\/login\?return=%2F_config&reason=/)])
  })

  // Each node has a cache of its own, and counts what it looks up there.
  it.skipIf(TEST_NODES > 1)('auth_cache_size is the number of cached users', async () => {
    const server = await Server.start()
    await server.register('ann')
    await server.set('auth_cache_size', '0')
    const misses = async () => {
      const reply = await server.as(undefined, 'GET', '/_stats/service/auth_cache_misses?flush=true')
      return reply.as<{ service: { auth_cache_misses: { current: number } } }>().service.auth_cache_misses.current
    }
    const before = await misses()
    for (let i = 0; i < 3; i++) await server.as('ann:pass', 'GET', '/')
    expect(await misses()).toBe(before + 3)
  })
})
