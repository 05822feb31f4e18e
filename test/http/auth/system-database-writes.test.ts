/** All ways to write to the system databases, by every kind of user; and what is refused before a body is read. */
import { gzipSync } from 'node:zlib'
import { beforeAll, describe, expect, it } from 'vitest'
import { type Reply, rawRequest, serverOfFile } from '../../support/client.ts'

const client = serverOfFile({ settings: { admins: { root: 'top' } } })

const PEOPLE = ['nobody', 'other', 'owner', 'admin'] as const
type Person = (typeof PEOPLE)[number]

const HEADERS: Record<Person, Record<string, string>> = {
  nobody: {},
  other: { Authorization: `Basic ${btoa('eve:pass')}` },
  owner: { Authorization: `Basic ${btoa('bob:pass')}` },
  admin: { Authorization: `Basic ${btoa('root:top')}` },
}
const ID = 'org.couchdb.user:bob'
const BINARY = { 'Content-Type': 'application/octet-stream' }

function user(name: string, more: object = {}) {
  return { _id: `org.couchdb.user:${name}`, name, type: 'user', roles: [], password: 'pass', ...more }
}

let count = 0
const fresh = () => `fresh${count++}`

function send(person: Person, method: string, path: string, body?: unknown, headers: object = {}): Promise<Reply> {
  return client().request(method, path, { body, headers: { ...HEADERS[person], ...headers } })
}

beforeAll(async () => {
  for (const name of ['bob', 'eve']) expect((await send('admin', 'POST', '/_users', user(name))).status).toBe(201)
})

/** One entry of `_bulk_docs`, as the status that a single write would have. */
async function inBulk(person: Person, path: string, document: object): Promise<number> {
  const reply = await send(person, 'POST', `${path}/_bulk_docs`, { docs: [document] })
  if (reply.status !== 201) return reply.status
  const [entry] = reply.as<{ error?: string }[]>()
  return { unauthorized: 401, forbidden: 403, conflict: 409, not_found: 404 }[entry?.error ?? ''] ?? 201
}

const status = async (reply: Promise<Reply>) => (await reply).status
const text = (value: unknown) => JSON.stringify(value)

type Statuses = readonly [nobody: number, other: number, owner: number, admin: number]

describe('_users', () => {
  it.each<[string, Statuses, (person: Person) => Promise<number>]>([
    ['a new user', [201, 404, 404, 201], (person) => status(send(person, 'POST', '/_users', user(fresh())))],
    ['a document that is no user', [403, 404, 404, 403], (person) => status(send(person, 'PUT', '/_users/x', {}))],
    [
      'a local document',
      [401, 401, 401, 201],
      (person) => status(send(person, 'PUT', `/_users/_local/${fresh()}`, {})),
    ],
    [
      'a local document by POST',
      [401, 401, 401, 201],
      (person) => status(send(person, 'POST', '/_users', { _id: `_local/${fresh()}` })),
    ],
    [
      'a local document in bulk',
      [401, 401, 401, 201],
      (person) => inBulk(person, '/_users', { _id: `_local/${fresh()}` }),
    ],
    ['a user in bulk', [201, 404, 404, 201], (person) => inBulk(person, '/_users', user(fresh()))],
    [
      'a design document',
      [401, 401, 401, 201],
      (person) => status(send(person, 'PUT', `/_users/_design/${fresh()}`, {})),
    ],
    [
      'a design document whose slash is escaped',
      [403, 403, 403, 201],
      (person) => status(send(person, 'PUT', `/_users/_design%2F${fresh()}`, {})),
    ],
    [
      'an attachment of a design document',
      [401, 401, 401, 201],
      (person) => status(send(person, 'PUT', `/_users/_design/${fresh()}/f`, 'x', BINARY)),
    ],
    [
      'an attachment of what is no user',
      [403, 404, 404, 403],
      (person) => status(send(person, 'PUT', `/_users/${fresh()}/f`, 'x', BINARY)),
    ],
    ['a purge', [401, 401, 401, 200], (person) => status(send(person, 'POST', '/_users/_purge', {}))],
    [
      'the limit of revisions',
      [401, 401, 401, 200],
      (person) => status(send(person, 'PUT', '/_users/_revs_limit', '1000')),
    ],
    ['the security object', [401, 401, 401, 200], (person) => status(send(person, 'PUT', '/_users/_security', {}))],
    [
      'an update function',
      [403, 403, 403, 404],
      (person) => status(send(person, 'POST', '/_users/_design/none/_update/x', {})),
    ],
  ])('%s', async (_, expected, write) => {
    const statuses: number[] = []
    for (const person of PEOPLE) statuses.push(await write(person))
    expect(statuses).toEqual(expected)
  })

  it("allows attachments only on the user's own document", async () => {
    const { _rev } = (await send('owner', 'GET', `/_users/${ID}`)).as<{ _rev: string }>()
    const put = (person: Person) => send(person, 'PUT', `/_users/${ID}/f?rev=${_rev}`, 'x', BINARY)
    expect([await status(put('nobody')), await status(put('other')), await status(put('owner'))]).toEqual([
      403, 404, 201,
    ])
  })

  it('refuses to copy a user to a local document', async () => {
    const copy = (person: Person) =>
      send(person, 'COPY', `/_users/${ID}`, undefined, { Destination: `_local/${fresh()}` })
    const statuses: number[] = []
    for (const person of PEOPLE) statuses.push(await status(copy(person)))
    expect(statuses).toEqual([404, 404, 401, 201])
  })

  it('refuses to delete a local document', async () => {
    const { rev } = await send('admin', 'PUT', '/_users/_local/kept', {})
    for (const person of ['nobody', 'other', 'owner'] as const) {
      expect(await status(send(person, 'DELETE', `/_users/_local/kept?rev=${rev}`))).toBe(401)
    }
  })
})

describe('_replicator', () => {
  it.each<[string, Statuses, (person: Person) => Promise<number>]>([
    [
      'a local document',
      [401, 401, 401, 201],
      (person) => status(send(person, 'PUT', `/_replicator/_local/${fresh()}`, {})),
    ],
    [
      'a local document in bulk',
      [401, 401, 401, 201],
      (person) => inBulk(person, '/_replicator', { _id: `_local/${fresh()}` }),
    ],
    [
      'a design document',
      [401, 401, 401, 201],
      (person) => status(send(person, 'PUT', `/_replicator/_design/${fresh()}`, {})),
    ],
    ['a purge', [401, 401, 401, 200], (person) => status(send(person, 'POST', '/_replicator/_purge', {}))],
    [
      'the security object',
      [401, 401, 401, 200],
      (person) => status(send(person, 'PUT', '/_replicator/_security', {})),
    ],
  ])('%s', async (_, expected, write) => {
    const statuses: number[] = []
    for (const person of PEOPLE) statuses.push(await write(person))
    expect(statuses).toEqual(expected)
  })
})

describe('a user without the right to write is refused before the body is read', () => {
  it.each([
    ['PUT /_users/x/f', 403],
    ['PUT /_users/_local/x', 401],
    ['PUT /_users/_design%2Fx', 403],
    ['PUT /_users/_design%2Fx/f', 403],
    ['PUT /_users/_design/x/f', 401],
    ['PUT /_replicator/_local/x', 401],
    ['PUT /_config/a/b', 401],
    ['POST /_users/_purge', 401],
    ['PUT /open/_design%2Fx', 401],
    ['PUT /open/_design/x/f', 401],
    ['PUT /closed/x', 401],
    ['PUT /closed/x/f', 401],
    ['POST /closed/_bulk_docs', 401],
  ])('%s', async (line, expected) => {
    await send('admin', 'PUT', '/open')
    await send('admin', 'PUT', '/closed')
    await send('admin', 'PUT', '/closed/_security', { members: { names: ['somebody'], roles: [] } })
    const head = [`${line} HTTP/1.1`, 'Host: x', 'Content-Type: application/json', 'Content-Length: 1000000000']
    const connection = await client().open()
    connection.write(rawRequest([...head, 'Expect: 100-continue']))
    expect(await connection.closed()).toMatch(new RegExp(`^HTTP/1.1 ${expected} [^]*Connection: close\r\n`))
  })
})

describe('the size of what users may send to _users', () => {
  const large = 'x'.repeat(70_000)

  it.each([
    ['PUT', `/_users/org.couchdb.user:large`, user('large', { large })],
    ['POST', '/_users', user('larger', { large })],
    ['POST', '/_users/_bulk_docs', { docs: [user('largest', { large })] }],
    ['POST', '/_users/_revs_diff', { large: Array(10_000).fill('1-abc') }],
    ['POST', '/_users/_bulk_get', { docs: [{ id: large }] }],
  ])('by %s %s is limited', async (method, path, body) => {
    for (const headers of [{}, { 'Transfer-Encoding': 'chunked' }]) {
      expect(await status(send('nobody', method, path, body, headers))).toBe(413)
    }
    expect(await status(send('admin', method, path, body))).toBeLessThan(400)
  })

  it.each([
    ['PUT', '/_users/org.couchdb.user:packed', JSON.stringify(user('packed', { large }))],
    ['PUT', '/_users/org.couchdb.user:packed', ' '.repeat(60_000_000)],
    ['POST', '/_users/_bulk_docs', `{"docs":[${'{},'.repeat(5_000_000)}{}]}`],
  ])('by %s %s is limited by its decompressed size', async (method, path, body) => {
    const packed = gzipSync(body)
    expect(packed.length).toBeLessThan(65_536)
    expect(await status(send('nobody', method, path, packed, { 'Content-Encoding': 'gzip' }))).toBe(413)
  })

  it('is limited for attachments too, by the setting', async () => {
    const { _rev } = (await send('other', 'GET', '/_users/org.couchdb.user:eve')).as<{ _rev: string }>()
    const path = `/_users/org.couchdb.user:eve/f?rev=${_rev}`
    expect(await status(send('other', 'PUT', path, large, BINARY))).toBe(413)
    expect(await status(send('other', 'PUT', path, large, { ...BINARY, 'Transfer-Encoding': 'chunked' }))).toBe(413)
    const setting = '/_config/service_httpd_auth/max_user_request_size'
    expect(await status(send('admin', 'PUT', setting, text('100000')))).toBe(200)
    expect(await status(send('other', 'PUT', path, large, BINARY))).toBe(201)
    await send('admin', 'DELETE', setting)
  })
})
