/** Attempts to act as another user, or to reach what is not allowed. */
import fc from 'fast-check'
import { beforeAll, describe, expect, it } from 'vitest'
import { expectRefusal, type Reply, rawRequest, serverOfFile } from '../../support/client.ts'

const client = serverOfFile({ settings: { admins: { root: 'top' } } })
const ADMIN = { Authorization: `Basic ${btoa('root:top')}` }

let token = ''

beforeAll(async () => {
  const user = { name: 'mia', password: 'pass', roles: [], type: 'user' }
  await client().request('PUT', '/_users/org.service.user:mia', { headers: ADMIN, body: user })
  const reply = await client().request('POST', '/_session', { body: { name: 'mia', password: 'pass' } })
  token = /^AuthSession=([^;]+)/.exec(reply.headers['set-cookie']?.[0] ?? '')?.[1] ?? ''
  expect(token).not.toBe('')
})

const nameWith = async (value: string): Promise<string | null | number> => {
  const reply = await client().request('GET', '/_session', { headers: { Cookie: `AuthSession=${value}` } })
  return reply.status === 200 ? reply.as<{ userCtx: { name: string | null } }>().userCtx.name : reply.status
}

/** A token as it is, taken apart. */
function parts(): { name: string; time: string; mac: Buffer } {
  const bytes = Buffer.from(token, 'base64url')
  const first = bytes.indexOf(':')
  const second = bytes.indexOf(':', first + 1)
  return {
    name: bytes.toString('utf8', 0, first),
    time: bytes.toString('utf8', first + 1, second),
    mac: bytes.subarray(second + 1),
  }
}

function made(name: string, time: string, mac: Buffer): string {
  return Buffer.concat([Buffer.from(`${name}:${time}:`), mac]).toString('base64url')
}

describe('a session cookie', () => {
  it('that is truncated anywhere is refused', async () => {
    expect(await nameWith(token)).toBe('mia')
    for (let length = 1; length < token.length; length++) {
      expect([null, 400], String(length)).toContain(await nameWith(token.slice(0, length)))
    }
  })

  it('with any one byte changed is refused', async () => {
    const bytes = Buffer.from(token, 'base64url')
    for (let at = 0; at < bytes.length; at++) {
      const changed = Buffer.from(bytes)
      changed[at] = (changed[at] ?? 0) ^ 1
      expect([null, 400], String(at)).toContain(await nameWith(changed.toString('base64url')))
    }
  })

  it('for another name, another time, or with another kind of signature is refused', async () => {
    const { name, time, mac } = parts()
    expect(await nameWith(made(name, time, mac))).toBe('mia')
    const later = (Number.parseInt(time, 16) + 1000).toString(16).toUpperCase()
    const forged = [
      made('root', time, mac),
      made('mia2', time, mac),
      made(name, later, mac),
      made(name, 'FFFFFFFFFFFFFFFF', mac),
      made(name, '-1', mac),
      made(name, time, Buffer.alloc(20)),
      made(name, time, Buffer.alloc(0)),
      made(name, time, Buffer.concat([mac, mac])),
      made('', time, mac),
      made('__proto__', time, mac),
    ]
    for (const each of forged) expect([null, 400], each).toContain(await nameWith(each))
  })

  it('of random bytes is refused, and does no harm', async () => {
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ minLength: 1, maxLength: 80 }), async (bytes) => {
        expect([null, 400]).toContain(await nameWith(Buffer.from(bytes).toString('base64url')))
      }),
      { numRuns: 100 },
    )
  })
})

describe('a request for revisions', () => {
  const MIA = 'org.service.user:mia'

  it('does not disclose users that the sender may not read', async () => {
    const { _rev: rev } = (await client().request('GET', `/_users/${MIA}`, { headers: ADMIN })).as<{ _rev: string }>()
    const body = { [MIA]: [rev, '9-x'], 'org.service.user:noone': [rev, '9-x'] }
    const ask = (headers: Record<string, string>) =>
      client()
        .request('POST', '/_users/_revs_diff', { headers, body })
        .then((reply) => reply.json)
    const nothing = { missing: [rev, '9-x'] }
    expect(await ask({})).toEqual({ [MIA]: nothing, 'org.service.user:noone': nothing })
    const known = { missing: ['9-x'], possible_ancestors: [rev] }
    expect(await ask({ Cookie: `AuthSession=${token}` })).toMatchObject({ [MIA]: known })
    expect(await ask(ADMIN)).toMatchObject({ [MIA]: known })
    const { json } = await client().request('POST', '/_users/_missing_revs', { body: { [MIA]: [rev] } })
    expect(json).toEqual({ missing_revs: { [MIA]: [rev] } })
  })
})

describe('a name', () => {
  const header = (reply: Reply) => Object.keys(reply.headers)

  it.each([
    ['a line break', 'a\r\nX-Evil: yes'],
    ['a line feed', 'a\nSet-Cookie: x=y'],
    ['a zero', 'a\0b'],
    ['no ASCII', 'mïa 💧'],
  ])('with %s adds no header to any reply', async (_, name) => {
    const body = { name, password: 'pass', roles: [], type: 'user' }
    const id = encodeURIComponent(`org.service.user:${name}`)
    const registered = await client().request('PUT', `/_users/${id}`, { headers: ADMIN, body })
    expect(header(registered)).not.toContain('x-evil')
    const replies = [
      registered,
      await client().request('POST', '/_session', { body: { name, password: 'pass' } }),
      await client().request('GET', '/_session', {
        headers: { Authorization: `Basic ${Buffer.from(`${name}:pass`).toString('base64')}` },
      }),
      await client().request('PUT', `/${encodeURIComponent(name)}`, { headers: ADMIN }),
      await client().request('GET', `/_session?next=/${encodeURIComponent(name)}`),
      await client().request('GET', `/${encodeURIComponent(name)}?callback=${encodeURIComponent(name)}`),
    ]
    for (const reply of replies) {
      expect(reply.status).toBeLessThan(500)
      expect(header(reply)).not.toContain('x-evil')
      const [cookie = ''] = reply.headers['set-cookie'] ?? []
      expect(cookie).not.toContain('x=y')
      if (cookie !== '')
        expect(cookie).toMatch(/^AuthSession=[\w-]*; Version=1;( Expires=[^;]+; Max-Age=\d+;)? Path=\/; HttpOnly$/)
    }
  })

  it('with unusual characters logs in like others', async () => {
    const login = await client().request('POST', '/_session', { body: { name: 'mïa 💧', password: 'pass' } })
    expect(login.json).toEqual({ ok: true, name: 'mïa 💧', roles: [] })
    const [cookie = ''] = login.headers['set-cookie'] ?? []
    expect(await nameWith(/=([^;]+)/.exec(cookie)?.[1] ?? '')).toBe('mïa 💧')
  })
})

describe('a path', () => {
  it.each([
    '/..%2F_users',
    '/..%2f..%2fetc%2fpasswd',
    '/%2e%2e/_config',
    '/..%5c_users',
    '/.%2e',
    '/_users%2F',
    '/_USERS',
    '/%5f%75sers%00',
    '/a%00b',
    '/a%2F..%2F_users',
    '/%252e%252e%252f_users',
    '/..;/_config',
    '/_replicator%2Fx',
  ])('%s reaches no database of the server', async (path) => {
    for (const method of ['GET', 'PUT', 'DELETE']) {
      const reply = await client().request(method, path, { headers: ADMIN })
      expect(reply.json, method).toMatchObject({ error: 'illegal_database_name' })
    }
    expect((await client().request('GET', `${path}/org.service.user:mia`)).status).not.toBe(200)
  })

  it.each(['/db/../_users/org.service.user:mia', '/_utils/../_config', '/_session/../_config', '/./_config'])(
    '%s is taken as it is sent',
    async (path) => {
      const reply = await client().exchange(
        rawRequest([`GET ${path} HTTP/1.1`, `Host: ${client().host}`, 'Connection: close']),
      )
      expect(reply).not.toContain('org.service.user:mia"')
      expect(reply).not.toContain('"httpd"')
    },
  )
})

describe('a head', () => {
  const send = (...lines: string[]) =>
    client().exchange(rawRequest(['GET /_session HTTP/1.1', `Host: ${client().host}`, 'Connection: close', ...lines]))

  it.each([
    ['one header of a megabyte', [`X-Long: ${'x'.repeat(1024 * 1024)}`]],
    ['a cookie of a megabyte', [`Cookie: AuthSession=${'x'.repeat(1024 * 1024)}`]],
    ['two thousand headers', Array.from({ length: 2000 }, (_, i) => `X-${i}: 1`)],
  ])('with %s is refused, and the server continues', async (_, lines) => {
    expect(await send(...lines)).toMatch(/^HTTP\/1\.1 4\d\d /)
    expect((await client().request('GET', '/')).status).toBe(200)
  })

  it('with two cookies of the same name authenticates one user at most', async () => {
    const reply = await send(`Cookie: AuthSession=${token}; AuthSession=${made('root', 'FFFFFFF', Buffer.alloc(20))}`)
    expect(reply).not.toContain('"name":"root"')
  })

  it('that names another user in proxy headers is ignored unless enabled', async () => {
    const headers = {
      'X-Auth-CouchDB-UserName': 'root',
      'X-Auth-CouchDB-Roles': '_admin',
      'X-Service-VHost-Path': '/x',
    }
    const reply = await client().request('GET', '/_config', { headers })
    expectRefusal(reply, 401, 'unauthorized', 'You are not a server admin.')
  })
})
