/** Hashes of users' passwords that are weaker than new ones: they are verified, and upgraded at the next login. */
import { createHash, pbkdf2Sync } from 'node:crypto'
import { describe, expect, it, onTestFinished } from 'vitest'
import { Client } from '../../support/client.ts'
import { startService } from '../../support/service.ts'

/** One that servers give, and one that is too short to be kept. */
const LONG_SALT = 'a1b2c3d4'.repeat(4)
const SALT = 'a1b2c3'
const ADMIN = { Authorization: `Basic ${btoa('root:top')}` }

type Members = Record<string, unknown>

const key = (iterations: number, bytes: number, digest: string, salt = SALT) =>
  pbkdf2Sync('pass', salt, iterations, bytes, digest).toString('hex')

const SIMPLE = { password_sha: createHash('sha1').update(`pass${SALT}`).digest('hex'), salt: SALT }
const SHA1 = { password_scheme: 'pbkdf2', derived_key: key(50, 20, 'sha1'), salt: SALT, iterations: 50 }
const FEWER = { ...SHA1, pbkdf2_prf: 'sha256', derived_key: key(5, 32, 'sha256'), iterations: 5 }
const MORE = { ...SHA1, pbkdf2_prf: 'sha256', derived_key: key(70, 32, 'sha256'), iterations: 70 }
const SHA512 = { ...SHA1, pbkdf2_prf: 'sha512', derived_key: key(5, 64, 'sha512'), iterations: 5 }

class Users {
  readonly #client: Client

  static async start(settings: Record<string, string> = {}): Promise<Users> {
    const auth = { iterations: '20', login_free_tries: '1000', ...settings }
    const { url } = await startService({ settings: { admins: { root: 'top' }, service_httpd_auth: auth } })
    const client = new Client(url)
    onTestFinished(() => client.close())
    return new Users(client)
  }

  constructor(client: Client) {
    this.#client = client
  }

  async save(name: string, members: Members): Promise<void> {
    const body = { name, type: 'user', roles: ['kept'], ...members }
    const reply = await this.#client.request('PUT', `/_users/org.service.user:${name}`, { headers: ADMIN, body })
    expect(reply.status, reply.text).toBe(201)
  }

  async read(name: string): Promise<Members> {
    return (await this.#client.request('GET', `/_users/org.service.user:${name}`, { headers: ADMIN })).as<Members>()
  }

  async basic(name: string, password = 'pass'): Promise<number> {
    const headers = { Authorization: `Basic ${btoa(`${name}:${password}`)}` }
    return (await this.#client.request('GET', '/_session', { headers })).status
  }

  /** The name that the session of a login is of. */
  async session(name: string): Promise<unknown> {
    return this.nameOf(await this.login(name))
  }

  /** The cookie of a new session. */
  async login(name: string): Promise<string> {
    const login = await this.#client.request('POST', '/_session', { body: { name, password: 'pass' } })
    const [cookie = ''] = login.headers['set-cookie'] ?? []
    return cookie
  }

  async nameOf(cookie: string): Promise<unknown> {
    const reply = await this.#client.request('GET', '/_session', { headers: { Cookie: cookie } })
    return reply.as<{ userCtx: { name: unknown } }>().userCtx.name
  }

  async set(key: string, value: string): Promise<void> {
    const path = `/_config/service_httpd_auth/${key}`
    expect((await this.#client.request('PUT', path, { headers: ADMIN, body: JSON.stringify(value) })).status).toBe(200)
  }
}

const NEW_HASH = { password_scheme: 'pbkdf2', pbkdf2_prf: 'sha256', iterations: 20, roles: ['kept'] }
const NEW = { ...NEW_HASH, mine: 1.0 }

describe('a weak hash', () => {
  it.each([
    ['of the simple scheme', SIMPLE],
    ['of SHA-1', SHA1],
    ['of fewer iterations', FEWER],
  ])('%s is upgraded at a login, once', async (_, members) => {
    const users = await Users.start()
    await users.save('ann', { ...members, mine: 1 })
    expect(await users.basic('ann', 'wrong')).toBe(401)
    expect((await users.read('ann'))._rev).toMatch(/^1-/)
    expect(await users.session('ann')).toBe('ann')
    const after = await users.read('ann')
    expect(after).toMatchObject({ ...NEW, _rev: expect.stringMatching(/^2-/) })
    expect(after.derived_key).toMatch(/^[0-9a-f]{64}$/)
    expect(after.salt).not.toBe(SALT)
    expect(after).not.toHaveProperty('password_sha')
    expect([await users.basic('ann'), await users.basic('ann', 'wrong'), await users.session('ann')]).toEqual([
      200,
      401,
      'ann',
    ])
    expect(await users.read('ann')).toEqual(after)
  })

  it('is upgraded once, however many connections a client has', async () => {
    const users = await Users.start()
    await users.save('ann', SHA1)
    const statuses = await Promise.all(Array.from({ length: 20 }, () => users.basic('ann')))
    expect(new Set(statuses)).toEqual(new Set([200]))
    expect((await users.read('ann'))._rev).toMatch(/^2-/)
  })

  it('is upgraded to the same hash by servers that replicate their users, so no conflict locks a user out', async () => {
    const servers = [await Users.start(), await Users.start()] as const
    const weak = { ...SHA1, salt: LONG_SALT, derived_key: key(50, 20, 'sha1', LONG_SALT) }
    for (const server of servers) await server.save('ann', weak)
    for (const server of servers) expect(await server.basic('ann')).toBe(200)
    const [one, other] = [await servers[0].read('ann'), await servers[1].read('ann')]
    expect(one).toMatchObject({ ...NEW_HASH, _rev: expect.stringMatching(/^2-/) })
    expect(other).toEqual(one)
  })

  it('is upgraded without ending the sessions of its user', async () => {
    const users = await Users.start()
    await users.save('ann', { password: 'pass' })
    const cookie = await users.login('ann')
    await users.set('iterations', '30')
    expect(await users.basic('ann')).toBe(200)
    expect(await users.read('ann')).toMatchObject({ iterations: 30, _rev: expect.stringMatching(/^2-/) })
    expect(await users.nameOf(cookie)).toBe('ann')
  })

  it.each([
    ['of more iterations', MORE],
    ['of another digest than SHA-1', SHA512],
  ])('%s is not upgraded', async (_, members) => {
    const users = await Users.start()
    await users.save('ann', members)
    expect(await users.session('ann')).toBe('ann')
    expect(await users.read('ann')).toMatchObject({ ...members, _rev: expect.stringMatching(/^1-/) })
  })

  it('does not overwrite a password that is set meanwhile', async () => {
    const users = await Users.start({ iterations: '20000' })
    for (let round = 0; round < 5; round++) {
      const name = `user${round}`
      await users.save(name, SHA1)
      const { _rev } = await users.read(name)
      const logins = Promise.all(Array.from({ length: 3 }, () => users.basic(name)))
      // Whoever comes second has a conflict, and tries again with what is there.
      const change = (rev: unknown) => users.save(name, { _rev: rev, password: 'changed' })
      await change(_rev).catch(async () => change((await users.read(name))._rev))
      await logins
      expect([await users.basic(name, 'changed'), await users.basic(name)]).toEqual([200, 401])
    }
  })

  it('is kept when new hashes use the simple scheme', async () => {
    const users = await Users.start({ password_scheme: 'simple' })
    await users.save('ann', SIMPLE)
    expect(await users.session('ann')).toBe('ann')
    expect((await users.read('ann'))._rev).toMatch(/^1-/)
  })
})

describe('queued password checks', () => {
  it('are bounded: further requests get 503', async () => {
    const users = await Users.start({ iterations: '100000', max_waiting_logins: '2' })
    const statuses = await Promise.all(Array.from({ length: 30 }, (_, i) => users.basic(`nobody${i}`)))
    expect(new Set(statuses)).toEqual(new Set([401, 503]))
  })
})
