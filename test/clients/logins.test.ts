/** Logging in as people do: with nano, PouchDB, the flows of its authentication plugin, and curl with a jar of cookies. */
import { execFile } from 'node:child_process'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { promisify } from 'node:util'
import nano from 'nano'
import { describe, expect, it, onTestFinished } from 'vitest'
import { startService } from '../support/service.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

/** What the tests use of PouchDB, which comes without types. */
interface Pouch {
  put(document: object): Promise<{ rev: string }>
  get(id: string): Promise<object>
  close(): Promise<void>
}

type PouchConstructor = new (name: string, options?: object) => Pouch

// Its module for imports names no file that Node finds.
const PouchDB: PouchConstructor = createRequire(import.meta.url)('pouchdb')

/** A server with an administrator, `root`, and a database that is for `mia` only. */
async function start(): Promise<{ url: string; host: string }> {
  const settings = {
    admins: { root: 'top' },
    // The jar of nano keeps only cookies that say when they expire.
    service_httpd_auth: { allow_persistent_cookies: 'true' },
  }
  const { url } = await startService({ settings })
  const address = url.replace(/\/$/, '')
  const put = async (path: string, body?: object) => {
    const reply = await fetch(`${address}/${path}`, {
      method: 'PUT',
      headers: { Authorization: `Basic ${btoa('root:top')}`, 'Content-Type': 'application/json' },
      ...(body && { body: JSON.stringify(body) }),
    })
    expect(reply.status, path).toBeLessThan(300)
  }
  await put('_users/org.couchdb.user:mia', { name: 'mia', password: 'pass', roles: [], type: 'user' })
  await put('closed')
  await put('closed/_security', { members: { names: ['mia'], roles: [] }, admins: { names: [], roles: [] } })
  return { url: address, host: address.replace('http://', '') }
}

describe('nano', () => {
  it('logs in with auth, keeps its cookie, and asks for its session', async () => {
    const { url } = await start()
    const server = nano(url)
    await expect(server.use('closed').info()).rejects.toMatchObject({ statusCode: 401 })
    await expect(server.auth('mia', 'wrong')).rejects.toMatchObject({ statusCode: 401, error: 'unauthorized' })
    expect(await server.auth('mia', 'pass')).toMatchObject({ ok: true, name: 'mia', roles: [] })
    expect(await server.session()).toMatchObject({
      ok: true,
      userCtx: { name: 'mia', roles: [] },
      info: { authenticated: 'cookie' },
    })
    expect(await server.use<{ n: number }>('closed').insert({ n: 1 }, 'doc')).toMatchObject({ ok: true, id: 'doc' })
    await expect(server.db.create('another')).rejects.toMatchObject({ statusCode: 401 })
  })

  it('logs in with a name and a password in the address', async () => {
    const { host } = await start()
    const server = nano(`http://root:top@${host}`)
    expect(await server.db.create('another')).toMatchObject({ ok: true })
    expect(await server.session()).toMatchObject({ userCtx: { name: 'root', roles: ['_admin'] } })
  })
})

describe('PouchDB', () => {
  it('logs in with auth, or with a password in the address', async () => {
    const { url, host } = await start()
    const options = { skip_setup: true, auth: { username: 'mia', password: 'pass' } }
    const given = new PouchDB(`${url}/closed`, options)
    const addressed = new PouchDB(`http://mia:pass@${host}/closed`, { skip_setup: true })
    const nobody = new PouchDB(`${url}/closed`, { skip_setup: true })
    onTestFinished(async () => {
      await Promise.all([given, addressed, nobody].map((db) => db.close()))
    })
    const { rev } = await given.put({ _id: 'doc', n: 1 })
    expect(await addressed.get('doc')).toMatchObject({ _rev: rev, n: 1 })
    await expect(nobody.get('doc')).rejects.toMatchObject({ status: 401, name: 'unauthorized' })
    await expect(given.put({ _id: '_design/x' })).rejects.toMatchObject({ status: 401 })
  })
})

/** What the authentication plugin of PouchDB sends, with the cookies that a browser would keep. */
class Browser {
  readonly #url: string
  #cookie = ''

  constructor(url: string) {
    this.#url = url
  }

  async send(method: string, path: string, body?: object): Promise<{ status: number; json: Record<string, unknown> }> {
    const reply = await fetch(`${this.#url}/${path}`, {
      method,
      headers: { Accept: 'application/json', 'Content-Type': 'application/json', Cookie: this.#cookie },
      ...(body && { body: JSON.stringify(body) }),
    })
    const [set] = reply.headers.getSetCookie()
    if (set !== undefined) this.#cookie = set.split(';')[0] ?? ''
    return { status: reply.status, json: (await reply.json()) as Record<string, unknown> }
  }
}

describe('the flow of an application', () => {
  it('signs up, logs in, changes the user, its password, and logs out', async () => {
    const { url } = await start()
    const browser = new Browser(url)
    const path = '_users/org.couchdb.user:new'
    const user = { _id: 'org.couchdb.user:new', name: 'new', password: 'one', roles: [], type: 'user', age: 7 }
    expect(await browser.send('PUT', path, user)).toMatchObject({ status: 201, json: { ok: true } })
    expect(await browser.send('PUT', path, user)).toMatchObject({ status: 409, json: { error: 'conflict' } })
    expect((await browser.send('GET', '_session')).json).toMatchObject({ ok: true, userCtx: { name: null, roles: [] } })
    expect((await browser.send('GET', path)).status).toBe(404)

    expect(await browser.send('POST', '_session', { name: 'new', password: 'two' })).toMatchObject({
      status: 401,
      json: { error: 'unauthorized', reason: 'Name or password is incorrect.' },
    })
    expect((await browser.send('POST', '_session', { name: 'new', password: 'one' })).json).toEqual({
      ok: true,
      name: 'new',
      roles: [],
    })
    const stored = (await browser.send('GET', path)).json
    expect(stored).toMatchObject({ name: 'new', age: 7, password_scheme: 'pbkdf2' })
    expect(stored).not.toHaveProperty('password')

    expect((await browser.send('PUT', path, { ...stored, age: 8 })).status).toBe(201)
    expect((await browser.send('GET', '_session')).json).toMatchObject({ userCtx: { name: 'new' } })
    const { _rev } = (await browser.send('GET', path)).json
    expect((await browser.send('PUT', path, { ...stored, _rev, roles: ['boss'] })).json).toMatchObject({
      error: 'forbidden',
    })
    expect((await browser.send('PUT', path, { ...stored, _rev, password: 'two' })).status).toBe(201)
    // The password was changed: the sessions of the old one are over.
    expect((await browser.send('GET', '_session')).json).toMatchObject({ userCtx: { name: null } })
    expect((await browser.send('POST', '_session', { name: 'new', password: 'two' })).status).toBe(200)
    expect((await browser.send('DELETE', '_session')).json).toEqual({ ok: true })
    expect((await browser.send('GET', '_session')).json).toMatchObject({ userCtx: { name: null } })
  })

  it('lets an administrator be made, and the open mode end', async () => {
    const { url } = await startService()
    const browser = new Browser(url.replace(/\/$/, ''))
    expect((await browser.send('GET', '_session')).json).toMatchObject({ userCtx: { roles: ['_admin'] } })
    const made = await fetch(`${url}_config/admins/boss`, { method: 'PUT', body: '"secret"' })
    expect([made.status, await made.text()]).toEqual([200, '""\n'])
    expect((await browser.send('PUT', 'mine')).status).toBe(401)
    expect((await browser.send('POST', '_session', { name: 'boss', password: 'secret' })).json).toMatchObject({
      name: 'boss',
      roles: ['_admin'],
    })
    expect((await browser.send('PUT', 'mine')).status).toBe(201)
  })
})

describe('curl', () => {
  it('logs in with a form, and keeps the cookie in its jar', async () => {
    const { url } = await start()
    const jar = join(await temporaryFolder(), 'jar')
    const curl = async (...parameters: string[]) => {
      const run = promisify(execFile)
      const { stdout } = await run('curl', ['-s', '-b', jar, '-c', jar, '-w', '%{http_code}', ...parameters])
      return stdout
    }
    expect(await curl(`${url}/closed`)).toMatch(/401$/)
    const form = ['-d', 'name=mia', '-d', 'password=pass']
    expect(await curl(...form, `${url}/_session`)).toBe('{"ok":true,"name":"mia","roles":[]}\n200')
    expect(await curl(`${url}/closed`)).toMatch(/200$/)
    expect(await curl('-L', '-o', join(jar, '..', 'page'), ...form, `${url}/_session?next=/_session`)).toBe('200')
    expect(await curl('-X', 'DELETE', `${url}/_session`)).toBe('{"ok":true}\n200')
    expect(await curl(`${url}/closed`)).toMatch(/401$/)
    expect(await curl('-u', 'mia:pass', `${url}/closed`)).toMatch(/200$/)
    expect(await curl('-u', 'mia:wrong', `${url}/`)).toMatch(/401$/)
  })
})
