import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import type { ImportReport } from '../../src/commands/import/import-report.ts'
import { isObject } from '../../src/encoding/json/json-value.ts'
import { Client } from '../support/client.ts'
import { startService } from '../support/service.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { until } from '../support/until.ts'
import { runSettle, startSettle } from './run-settle.ts'

const ADMIN = { authorization: `Basic ${Buffer.from('root:secret').toString('base64')}` }
const CREDENTIALS = {
  SETTLE_USER: 'root',
  SETTLE_PASSWORD: 'secret',
  SETTLE_SOURCE_USER: 'root',
  SETTLE_SOURCE_PASSWORD: 'secret',
}

async function server(dialect: '1.6' | '3', settings: Record<string, Record<string, string>> = {}): Promise<Client> {
  const service = await startService({
    dialect,
    settings: { ...settings, admins: { root: 'secret', ...settings.admins } },
  })
  return new Client(service.url)
}

async function send(client: Client, method: string, path: string, body?: unknown): Promise<unknown> {
  const reply = await client.request(method, path, {
    headers: ADMIN,
    ...(body !== undefined && { body: JSON.stringify(body) }),
  })
  expect(reply.status, `${method} ${path}: ${reply.text}`).toBeLessThan(300)
  return reply.json
}

const get = (client: Client, path: string) => send(client, 'GET', path)

/** Every leaf of every document with its history, its body and its attachments, and what is about the database. */
async function contents(client: Client, name: string): Promise<Record<string, unknown>> {
  const found: Record<string, unknown> = {}
  const { doc_count, doc_del_count } = (await get(client, `/${name}`)) as Record<string, number>
  found.counts = { doc_count, doc_del_count }
  for (const path of ['_security', '_revs_limit']) found[path] = await get(client, `/${name}/${path}`)
  const { results } = (await get(client, `/${name}/_changes?style=all_docs`)) as { results: { id: string }[] }
  for (const { id } of results) {
    const query = 'open_revs=all&revs=true&attachments=true'
    const reply = await client.request(
      'GET',
      `/${name}/${encodeURIComponent(id).replace('_design%2F', '_design/')}?${query}`,
      {
        headers: { ...ADMIN, accept: 'application/json' },
      },
    )
    // A text that is compressed here anew has another digest, and the same content.
    const leaves: { ok: { _rev: string } }[] = JSON.parse(reply.text, (name, value) => {
      if (name === 'digest') return undefined
      return name === 'data' ? createHash('sha256').update(String(value)).digest('hex') : value
    })
    found[id] = leaves.toSorted((a, b) => (a.ok._rev < b.ok._rev ? -1 : 1))
  }
  return found
}

async function run(source: Client, target: Client, ...flags: string[]) {
  const report = join(await temporaryFolder(), 'report.json')
  const args = ['import', source.url.href, '--url', target.url.href, '--quiet', '--report', report, ...flags]
  const outcome = await runSettle(args, { environment: CREDENTIALS })
  const json: ImportReport | undefined = await readFile(report, 'utf8').then(
    (text) => JSON.parse(text),
    () => undefined,
  )
  return { ...outcome, report: json }
}

/** History, a conflict, a deletion, attachments, and documents that the design document would refuse today. */
async function fill(client: Client, name: string): Promise<void> {
  const put = (id: string, body: object) => send(client, 'PUT', `/${name}/${id}`, body)
  await send(client, 'PUT', `/${name}`)
  const docs = Array.from({ length: 30 }, (_, i) => ({ _id: `plain-${i}`, i, big: '12345678901234567890' }))
  await send(client, 'POST', `/${name}/_bulk_docs`, { docs })
  let rev = ''
  for (let i = 0; i < 5; i++) {
    const saved = (await put('history', { i, ...(rev !== '' && { _rev: rev }) })) as { rev: string }
    rev = saved.rev
  }
  await send(client, 'POST', `/${name}/_bulk_docs`, {
    new_edits: false,
    docs: [
      { _id: 'torn', _rev: '2-b', _revisions: { start: 2, ids: ['b', 'a'] }, side: 'left' },
      { _id: 'torn', _rev: '2-c', _revisions: { start: 2, ids: ['c', 'a'] }, side: 'right' },
      {
        _id: 'gone',
        _rev: '3-d',
        _revisions: { start: 3, ids: ['d', 'c', 'b'] },
        _deleted: true,
        why: 'kept',
      },
    ],
  })
  await put('papers', {
    _attachments: {
      'a.txt': { content_type: 'text/plain', data: Buffer.from('x'.repeat(5000)).toString('base64') },
      'b/c.bin': { content_type: 'application/octet-stream', data: Buffer.alloc(200_000, 7).toString('base64') },
    },
  })
  await send(client, 'PUT', `/${name}/_design/strict`, {
    validate_doc_update: 'function(doc) { if (doc.i !== undefined || doc.side) throw({forbidden: "no more"}) }',
  })
}

/** The source behind another address; `before` is called with the path of each request, and may answer it with a status. */
async function passedOn(
  source: Client,
  before: (path: string) => Promise<number | undefined>,
): Promise<{ url: string }> {
  const proxy = createServer(async (request, reply) => {
    const pieces: Buffer[] = []
    for await (const piece of request) pieces.push(piece)
    const status = await before(request.url ?? '')
    if (status !== undefined) {
      reply.writeHead(status, { 'Content-Type': 'application/json' }).end('{"error":"planted","reason":"planted"}')
      return
    }
    const { host: _, connection: __, 'content-length': ___, 'transfer-encoding': ____, ...headers } = request.headers
    const answer = await fetch(new URL(request.url ?? '', source.url), {
      method: request.method ?? 'GET',
      headers: headers as Record<string, string>,
      ...(pieces.length > 0 && { body: new Uint8Array(Buffer.concat(pieces)) }),
    })
    const type = answer.headers.get('content-type') ?? ''
    reply.writeHead(answer.status, { 'Content-Type': type }).end(Buffer.from(await answer.arrayBuffer()))
  })
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    proxy.closeAllConnections()
    proxy.close()
  })
  const address = proxy.address()
  return { url: `http://127.0.0.1:${typeof address === 'object' && address ? address.port : 0}/` }
}

describe.each(['1.6', '3'] as const)('settle import from a server of dialect %s', (dialect) => {
  it('imports everything: documents, users, settings, and reports that both sides are the same', async () => {
    const source = await server(dialect, { admins: { second: 'other' } })
    const target = await server('1.6')
    await fill(source, 'plain')
    await send(source, 'PUT', '/parted?partitioned=true')
    await send(source, 'PUT', '/parted/p:a', { some: 'thing' })
    await send(source, 'PUT', '/a%2Fb')
    await send(source, 'PUT', '/plain/_security', {
      admins: { names: ['ann'], roles: [] },
      members: { names: [], roles: ['team'] },
    })
    await send(source, 'PUT', '/plain/_revs_limit', 77)
    await send(source, 'PUT', '/plain/_local/mine', { kept: true })
    await send(source, 'PUT', '/_users/org.couchdb.user:ann', {
      _id: 'org.couchdb.user:ann',
      name: 'ann',
      type: 'user',
      roles: ['team'],
      password: 'hers',
    })
    await send(source, 'PUT', '/_config/vhosts/example.com', '/plain')
    await send(source, 'PUT', '/_config/uuids/algorithm', 'random')
    const before = JSON.stringify(await get(source, '/plain'))

    const { code, err, out, report } = await run(source, target, '--local')
    expect(code, `${err}${out}`).toBe(0)
    for (const name of ['plain', 'parted', 'a%2Fb'])
      expect(await contents(target, name)).toEqual(await contents(source, name))
    expect(await get(target, '/parted')).toMatchObject({ props: { partitioned: true } })
    expect(await get(target, '/plain/_local/mine')).toMatchObject({ kept: true })
    // Who could log in there can log in here.
    for (const [name, password] of [
      ['ann', 'hers'],
      ['second', 'other'],
    ]) {
      expect((await target.request('POST', '/_session', { body: { name, password } })).status).toBe(200)
    }
    expect(await get(target, '/_config/vhosts/example.com')).toBe('/plain')
    expect(report?.settings).toEqual(expect.arrayContaining(['vhosts/example.com', 'uuids/algorithm', 'admins/second']))
    expect(report?.databases.map(({ name }) => name).toSorted()).toEqual(['_users', 'a/b', 'parted', 'plain'])
    expect(report?.databases.every(({ source: there, target: here }) => here.documents === there.documents)).toBe(true)
    expect(report?.leftOut.map(({ what }) => what)).toContain('admins/root')
    expect(out.toString()).toMatch(/^plain +34 +34 +1 +1 +36 +same$/m)
    // Nothing is written to the source.
    expect(JSON.stringify(await get(source, '/plain'))).toBe(before)
  })
})

describe('settle import', () => {
  it('imports what is new when it runs again, from its last position', async () => {
    const source = await server('1.6')
    const target = await server('1.6')
    await send(source, 'PUT', '/db')
    for (let i = 0; i < 20; i++) await send(source, 'PUT', `/db/${i}`, {})
    expect((await run(source, target)).report?.databases.find(({ name }) => name === 'db')?.revisionsWritten).toBe(20)
    await send(source, 'PUT', '/db/new', {})
    const log = async () => (await source.request('GET', '/_log?bytes=1000000', { headers: ADMIN })).text
    const seen = (await log()).length
    const again = await run(source, target)
    expect(again.code).toBe(0)
    expect(again.report?.databases.find(({ name }) => name === 'db')?.revisionsWritten).toBe(1)
    expect((await log()).slice(seen)).toMatch(/\/db\/_changes\?\S*since=20/)
    const fresh = await run(source, target, '--fresh')
    expect(fresh.code).toBe(0)
    expect(fresh.report?.databases.find(({ name }) => name === 'db')?.revisionsWritten).toBe(0)
  })

  it('applies access rules before the documents come, and cuts no history', async () => {
    const source = await server('1.6')
    const target = await server('1.6')
    await send(source, 'PUT', '/db')
    await send(source, 'PUT', '/db/_revs_limit', 3000)
    const ids = Array.from({ length: 1500 }, (_, i) => `${1500 - i}`)
    const long = { _id: 'long', _rev: '1500-1500', _revisions: { start: 1500, ids } }
    await send(source, 'POST', '/db/_bulk_docs', { docs: [long], new_edits: false })
    await send(source, 'PUT', '/db/_security', { members: { names: ['ann'], roles: [] } })
    await send(source, 'PUT', '/open')
    const seen: number[] = []
    const { url } = await passedOn(source, async (path) => {
      if (!path.startsWith('/db/_changes')) return undefined
      seen.push((await target.request('GET', '/db/_all_docs')).status)
      return undefined
    })
    const { code } = await run(new Client(url), target)
    expect(code).toBe(0)
    expect([...new Set(seen)]).toEqual([401])
    expect(await contents(target, 'db')).toEqual(await contents(source, 'db'))
  })

  it('imports no documents of a database whose _security cannot be read', async () => {
    const source = await server('1.6')
    const target = await server('1.6')
    await send(source, 'PUT', '/db')
    await send(source, 'PUT', '/db/doc', {})
    const { url } = await passedOn(source, async (path) => (path === '/db/_security' ? 500 : undefined))
    const { code, report } = await run(new Client(url), target)
    expect([code, report?.failed.map(({ what }) => what)]).toEqual([2, ['db']])
    expect(await get(target, '/db')).toMatchObject({ doc_count: 0 })
  })

  it('imports the settings of a Settle under their own names', async () => {
    const source = await server('1.6')
    const target = await server('1.6')
    await send(source, 'PUT', '/_config/service_httpd_auth/timeout', '1234')
    await send(source, 'PUT', '/_config/service/max_document_size', '54321')
    const { report } = await run(source, target)
    expect(await get(target, '/_config/service_httpd_auth/timeout')).toBe('1234')
    expect(await get(target, '/_config/service/max_document_size')).toBe('54321')
    expect(report?.leftOut.map(({ what }) => what)).not.toContain('couchdb/max_document_size')
  })

  it('continues after it was killed', async () => {
    const source = await server('1.6')
    const target = await server('1.6')
    const text = 'x'.repeat(4000)
    await send(source, 'PUT', '/db')
    for (let round = 0; round < 3; round++) {
      const docs = Array.from({ length: 1000 }, (_, i) => ({ _id: `${round}-${i}`, text }))
      await send(source, 'POST', '/db/_bulk_docs', { docs })
    }
    const count = async () => {
      const reply = await target.request('GET', '/db', { headers: ADMIN })
      return reply.status === 200 ? reply.as<{ doc_count: number }>().doc_count : 0
    }
    const first = startSettle(['import', source.url.href, '--url', target.url.href], CREDENTIALS)
    await until(async () => (await count()) > 0)
    first.kill()
    await first.ended
    const { code, report } = await run(source, target)
    expect(code).toBe(0)
    expect(await count()).toBe(3000)
    expect(report?.databases.find(({ name }) => name === 'db')?.revisionsWritten).toBeLessThan(3000)
  })

  it('reports what was refused, and what differs', async () => {
    const source = await server('1.6')
    const target = await server('1.6')
    await fill(source, 'db')
    await send(target, 'PUT', '/db')
    await send(target, 'PUT', '/db/_design/mine', {
      validate_doc_update: 'function(doc) { if (doc._id === "plain-3") throw({forbidden: "not this one"}) }',
    })
    const { code, out, report } = await run(source, target, '--only', 'db')
    expect(code).toBe(2)
    const database = report?.databases[0]
    expect(database?.refusedCount).toBe(1)
    expect(database?.refused[0]).toMatchObject({ id: 'plain-3', reason: expect.stringContaining('not this one') })
    expect(out.toString()).toContain('plain-3')
    // One is missing, and one is there that the source does not have.
    expect(database?.target.documents).toBe(database?.source.documents)
  })

  it('tries what was refused again each time, until it is accepted', async () => {
    const source = await server('1.6')
    const target = await server('1.6')
    for (const each of [source, target]) await send(each, 'PUT', '/db')
    await send(source, 'PUT', '/db/wanted', { n: 1 })
    const text = 'function(doc) { if (doc._id === "wanted") throw({forbidden: "not now"}) }'
    const validator = await send(target, 'PUT', '/db/_design/mine', { validate_doc_update: text })
    const again = async () => (await run(source, target, '--only', 'db')).report?.databases[0]
    // The number of documents is the same on both sides.
    for (let time = 0; time < 2; time++) {
      expect(await again()).toMatchObject({ refused: [{ id: 'wanted', reason: 'forbidden: not now' }] })
    }
    const revision = isObject(validator) ? validator.rev : undefined
    await send(target, 'DELETE', `/db/_design/mine?rev=${revision}`)
    expect(await again()).toMatchObject({ refusedCount: 0, revisionsWritten: 1 })
    expect(await again()).toMatchObject({ refusedCount: 0, revisionsWritten: 0 })
  })

  it('leaves out what flags exclude, and replications unless a flag includes them', async () => {
    const source = await server('1.6')
    const target = await server('1.6')
    for (const name of ['one', 'two', 'three']) await send(source, 'PUT', `/${name}`)
    const { code, report } = await run(source, target, '--except', 'two', '--no-users', '--no-settings')
    expect(code).toBe(0)
    expect(await get(target, '/_all_dbs')).toEqual(expect.arrayContaining(['one', 'three']))
    expect(await get(target, '/_all_dbs')).not.toContain('two')
    expect(report?.settings).toEqual([])
    expect(report?.leftOut.map(({ what }) => what).toSorted()).toEqual(['_replicator', '_users'])
  })

  it('ends with a message where it cannot begin', async () => {
    const source = await server('1.6')
    const target = await server('1.6')
    const import_ = (args: string[], environment: Record<string, string> = CREDENTIALS) =>
      runSettle(['import', ...args], { environment })
    const to = ['--url', target.url.href]
    expect(await import_([])).toMatchObject({ code: 1, err: expect.stringContaining('one source') })
    expect(await import_(['ftp://x', ...to])).toMatchObject({
      code: 1,
      err: expect.stringContaining('not the address'),
    })
    expect(await import_([source.url.href, '--frsh', ...to])).toMatchObject({ code: 1 })
    expect(await import_([source.url.href, '--only', 'none', ...to])).toMatchObject({
      code: 1,
      err: expect.stringContaining('no database none'),
    })
    expect(await import_([source.url.href, '--url', source.url.href])).toMatchObject({
      code: 1,
      err: expect.stringContaining('the same server'),
    })
    const wrong = { ...CREDENTIALS, SETTLE_SOURCE_PASSWORD: 'wrong' }
    expect(await import_([source.url.href, ...to], wrong)).toMatchObject({
      code: 1,
      err: expect.stringContaining('401'),
    })
    expect((await import_(['--help'])).out.toString()).toContain('Usage: settle import')
  })
})
