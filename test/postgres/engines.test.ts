import { readdirSync } from 'node:fs'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { createService, type Service, type ServiceOptions } from '../../src/service.ts'
import { runSettle } from '../commands/run-settle.ts'
import { PlacedConnection, requestText } from '../nodes/placed-connection.ts'
import { Client, expectRefusal, type Reply, TestDatabase } from '../support/client.ts'
import { describeOnPostgres } from '../support/on-postgres.ts'
import { sharedPostgres, TestPostgres } from '../support/postgres.ts'
import { PostgresProxy } from '../support/postgres-proxy.ts'
import { PooledService } from '../support/secondary-pool.ts'
import { startService } from '../support/service.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { CommandService } from '../support/test-service.ts'
import { until } from '../support/until.ts'

interface Server {
  readonly client: Client
  readonly service: Service
  readonly dir: string
}

/** A server on files, or on what the options say, with these entries of `[engines]`. */
async function serverWith(engines: Record<string, string>, options: ServiceOptions = {}): Promise<Server> {
  const dir = options.dir ?? (await temporaryFolder())
  const service = await startService({ ...options, dir, settings: { engines, ...options.settings } })
  const client = new Client(service.url)
  onTestFinished(() => client.close())
  return { client, service, dir }
}

async function created(client: Client, name: string): Promise<TestDatabase> {
  const { status, text } = await client.request('PUT', `/${name}`)
  expect(status, text).toBe(201)
  return new TestDatabase(client, name)
}

async function allDatabases(client: Client): Promise<string[]> {
  const reply = await client.request('GET', '/_all_dbs')
  expect(reply.status, reply.text).toBe(200)
  return reply.as<string[]>().filter((name) => !name.startsWith('_'))
}

/** Names of databases that have a file. */
function filesIn(dir: string): string[] {
  return readdirSync(dir)
    .flatMap((file) => /^(.+)\.\d+\.mdb$/.exec(file)?.[1] ?? [])
    .map(decodeURIComponent)
    .filter((name) => !name.startsWith('_'))
    .sort()
}

/** Names of databases that are rows of the tables. */
async function rowsOf(address: string): Promise<string[]> {
  const schema = new URL(address).searchParams.get('schema')
  const names = (await sharedPostgres()).query(
    `SELECT convert_from(name, 'UTF8') FROM "${schema}".stores WHERE catalog = 'databases' ORDER BY 1`,
  )
  return names.split('\n').filter((name) => name !== '' && !name.startsWith('_'))
}

function expectUnavailable(reply: Reply): void {
  expect(reply.status, reply.text).toBe(503)
  expect(reply.as<{ error: string }>().error).toBe('service_unavailable')
  expect(reply.headers['retry-after']).toMatch(/^\d+$/)
}

const VIEWS = {
  views: { numbers: { map: 'function (doc) { if (doc.n) emit(doc.n, doc._id) }', reduce: '_count' } },
  filters: { odd: 'function (doc) { return doc.n % 2 === 1 }' },
}

/** Lines of the log are written a moment after they are logged. */
async function untilLogged(dir: string, message: string, times = 1): Promise<void> {
  await until(async () => (await readFile(join(dir, 'settle.log'), 'utf8')).split(message).length > times)
}

/** Goes through most of what a database does. */
async function exercise(db: TestDatabase): Promise<void> {
  await db.save('_design/d', VIEWS)
  const docs = Array.from({ length: 30 }, (_, i) => ({ _id: `doc-${i}`, n: i + 1 }))
  expect((await db.post('_bulk_docs', { docs })).status).toBe(201)
  const attached = await db.request('PUT', 'with-file/text', { body: 'content', headers: { 'Content-Type': 'text/x' } })
  expect(attached.status).toBe(201)
  expect((await db.get('with-file/text')).text).toBe('content')
  const view = (await db.get('_design/d/_view/numbers?reduce=false&limit=2')).as<{ total_rows: number }>()
  expect(view.total_rows).toBe(30)
  expect((await db.get('_design/d/_view/numbers')).json).toEqual({ rows: [{ key: null, value: 30 }] })
  const found = await db.post('_find', { selector: { n: { $gt: 28 } }, fields: ['n'] })
  expect(found.as<{ docs: unknown[] }>().docs).toHaveLength(2)
  const changes = (await db.get('_changes?filter=d/odd')).as<{ results: unknown[] }>()
  expect(changes.results).toHaveLength(15)
  await db.compact()
  expect((await db.post('_compact/d', {})).status).toBe(202)
  expect((await db.get('_design/d/_view/numbers?key=7&reduce=false')).as<{ rows: unknown[] }>().rows).toHaveLength(1)
}

/** The leaves of each document, of a reply to `_changes`. */
function revisionsIn(changes: unknown): Record<string, unknown> {
  const { results } = changes as { results: { id: string; changes: unknown }[] }
  return Object.fromEntries(results.map((each) => [each.id, each.changes]))
}

describeOnPostgres('databases in several engines', () => {
  it('are where their names say, and do everything there', async () => {
    const address = (await sharedPostgres()).address()
    const { client, dir } = await serverWith({ 'shared-*': address, 'shared-but-local': 'files', a: 'files' })
    const names = ['a', 'plain', 'shared-1', 'shared-2', 'shared-but-local']
    const databases = await Promise.all(names.map((name) => created(client, name)))
    expect(await allDatabases(client)).toEqual(names)
    expect(filesIn(dir)).toEqual(['a', 'plain', 'shared-but-local'])
    expect(await rowsOf(address)).toEqual(['shared-1', 'shared-2'])
    for (const db of databases.slice(1, 3)) await exercise(db)
    const again = await client.request('PUT', '/shared-1')
    expect(again.status).toBe(412)
    expect((await client.request('DELETE', '/shared-1')).status).toBe(200)
    expect((await client.request('GET', '/shared-1')).status).toBe(404)
    expect((await client.request('GET', '/shared-9')).status).toBe(404)
    expect(await rowsOf(address)).toEqual(['shared-2'])
    // The indexes of a database go with it, whichever engine has them.
    const plain = await client.request('DELETE', '/plain')
    expect(plain.status).toBe(200)
    await until(() => !readdirSync(join(dir, 'view_indexes')).some((name) => name.startsWith('plain')))
    // System databases stay with the server, whatever matches their names.
    const all = (await client.request('GET', '/_all_dbs')).as<string[]>()
    expect(all).toEqual(['_replicator', '_users', 'a', 'shared-2', 'shared-but-local'])
  })

  it('replicate from one engine to the other', async () => {
    const { client } = await serverWith({ 'shared-*': (await sharedPostgres()).address() })
    const local = await created(client, 'local')
    await exercise(local)
    await local.save('doc-1', { _rev: (await local.get('doc-1')).as<{ _rev: string }>()._rev, n: 100 })
    const copy = { source: 'local', target: 'shared-copy', create_target: true }
    const there = await client.request('POST', '/_replicate', { body: copy })
    expect(there.json).toMatchObject({ ok: true })
    const back = await client.request('POST', '/_replicate', {
      body: { source: 'shared-copy', target: 'local-again', create_target: true },
    })
    expect(back.json).toMatchObject({ ok: true })
    const revisions = async (name: string) =>
      revisionsIn((await client.request('GET', `/${name}/_changes?style=all_docs`)).json)
    const before = await revisions('local')
    expect(Object.keys(before)).toHaveLength(32)
    expect(await revisions('shared-copy')).toEqual(before)
    expect(await revisions('local-again')).toEqual(before)
    expect((await client.request('GET', '/shared-copy/with-file/text')).text).toBe('content')
    const view = await client.request('GET', '/shared-copy/_design/d/_view/numbers')
    expect(view.json).toEqual({ rows: [{ key: null, value: 30 }] })
    // By a document of the replicator database too, under whatever lease that needs.
    const document = { _id: 'job', source: 'local', target: 'shared-by-document', create_target: true }
    expect((await client.request('POST', '/_replicator', { body: document })).status).toBe(201)
    await until(async () => {
      const { status, text } = await client.request('GET', '/shared-by-document')
      return status === 200 && JSON.parse(text).doc_count === 32
    })
  })

  it('are shared by servers that each have files of their own', async () => {
    const address = (await sharedPostgres()).address()
    const [a, b] = [await serverWith({ 'shared-*': address }), await serverWith({ 'shared-*': address })]
    await created(a.client, 'mine')
    const db = await created(a.client, 'shared-1')
    expect(await allDatabases(b.client)).toEqual(['shared-1'])
    const there = new TestDatabase(b.client, 'shared-1')
    const feed = there.get('_changes?feed=longpoll&since=0&timeout=60000')
    const rev = await db.save('doc', { from: 'a' })
    expect((await there.get('doc')).json).toMatchObject({ _rev: rev })
    expect((await feed).as<{ results: unknown[] }>().results).toHaveLength(1)
    expect((await b.client.request('DELETE', '/shared-1')).status).toBe(200)
    expect((await db.get('doc')).status).toBe(404)
    expect(await allDatabases(a.client)).toEqual(['mine'])
  })

  it('are found where they are after the patterns have changed', async () => {
    const address = (await sharedPostgres()).address()
    const dir = await temporaryFolder()
    const first = await serverWith({ 'shared-*': address }, { dir })
    for (const name of ['plain', 'shared-1', 'shared-2']) {
      const db = await created(first.client, name)
      await db.save('doc', { of: name })
      await db.save('_design/d', VIEWS)
    }
    await first.service.close()
    const { client, service } = await serverWith({ plain: address, '*': 'files' }, { dir })
    expect(await allDatabases(client)).toEqual(['plain', 'shared-1', 'shared-2'])
    for (const name of ['plain', 'shared-1', 'shared-2']) {
      expect((await client.request('GET', `/${name}/doc`)).json).toMatchObject({ of: name })
      expect((await client.request('GET', `/${name}/_design/d/_view/numbers`)).status).toBe(200)
      expect((await client.request('PUT', `/${name}`)).status).toBe(412)
    }
    expect(filesIn(dir)).toEqual(['plain'])
    for (const name of ['plain', 'shared-1']) {
      expect((await client.request('DELETE', `/${name}`)).status).toBe(200)
      await created(client, name)
      expect((await client.request('GET', `/${name}/doc`)).status).toBe(404)
    }
    expect(filesIn(dir)).toEqual(['shared-1'])
    expect(await rowsOf(address)).toEqual(['plain', 'shared-2'])
    await service.close()
    // Without any pattern the others are not reached, and not touched.
    const last = await serverWith({}, { dir })
    expect(await allDatabases(last.client)).toEqual(['shared-1'])
    expect(await rowsOf(address)).toEqual(['plain', 'shared-2'])
  })

  it('are moved by a backup and a restore, once a pattern names another engine', async () => {
    const address = (await sharedPostgres()).address()
    const dir = await temporaryFolder()
    const { client, service } = await serverWith({}, { dir })
    const before = await created(client, 'orders')
    await exercise(before)
    await before.put('_security', { members: { roles: ['buyers'] } })
    const { json: changes } = await before.get('_changes?style=all_docs')
    await writeFile(join(dir, 'local.ini'), `[engines]\norders = ${address}\n`)
    expect((await client.request('POST', '/_restart', { body: {} })).status).toBe(202)
    // No connection is accepted during the restart.
    const isRestarted = async () => (await client.request('GET', '/_config/engines/orders')).status === 200
    await until(() => isRestarted().catch(() => false))
    const url = ['--url', service.url]
    const to = await temporaryFolder()
    expect(await runSettle(['backup', ...url, '--db', 'orders', '--to', to, '--verify'])).toMatchObject({ code: 0 })
    expect(filesIn(dir)).toEqual(['orders'])
    expect((await client.request('DELETE', '/orders')).status).toBe(200)
    expect(await runSettle(['restore', ...url, '--from', to])).toMatchObject({ code: 0 })
    expect(filesIn(dir)).toEqual([])
    expect(await rowsOf(address)).toEqual(['orders'])
    const after = await before.get('_changes?style=all_docs')
    expect(revisionsIn(after.json)).toEqual(revisionsIn(changes))
    expect((await before.get('_security')).json).toEqual({ members: { roles: ['buyers'] } })
    expect((await before.get('with-file/text')).text).toBe('content')
    // What is not in the folder is not checked, and the command says so.
    const { code, err } = await runSettle(['check', '--dir', dir])
    expect(code, err).toBe(0)
    expect(err).toContain('Those are not in the folder, and are not checked.')
  })

  it('are reported where two engines have the same name', async () => {
    const address = (await sharedPostgres()).address()
    const dir = await temporaryFolder()
    const onFiles = await serverWith({}, { dir })
    await (await created(onFiles.client, 'twice')).save('doc', { of: 'files' })
    await onFiles.service.close()
    const onPostgres = await serverWith({}, { engine: address })
    await (await created(onPostgres.client, 'twice')).save('doc', { of: 'postgres' })
    await onPostgres.service.close()
    let times = 1
    for (const [pattern, used] of [
      ['twice', 'postgres'],
      ['another', 'files'],
    ] as const) {
      const { client, service } = await serverWith({ [pattern]: address }, { dir })
      expect(await allDatabases(client)).toEqual(['twice'])
      expect((await client.request('GET', '/twice/doc')).json).toMatchObject({ of: used })
      await untilLogged(dir, 'A database is in two storage engines. Only one of them is used.', times++)
      await service.close()
    }
  })

  it('may be in two PostgreSQL servers', async () => {
    const postgres = await sharedPostgres()
    const [own, other] = [postgres.address(), postgres.address()]
    const a = await serverWith({ 'archive-*': other }, { engine: own })
    const b = await serverWith({ 'archive-*': other }, { engine: own })
    await exercise(await created(a.client, 'archive-1'))
    await exercise(await created(b.client, 'orders'))
    expect(await rowsOf(own)).toEqual(['orders'])
    expect(await rowsOf(other)).toEqual(['archive-1'])
    for (const { client } of [a, b]) expect(await allDatabases(client)).toEqual(['archive-1', 'orders'])
    // The replications of documents are leased in one engine, and write to another.
    const document = { _id: 'job', source: 'orders', target: 'archive-orders', create_target: true }
    expect((await a.client.request('POST', '/_replicator', { body: document })).status).toBe(201)
    await until(async () => {
      const { status, text } = await b.client.request('GET', '/archive-orders')
      return status === 200 && JSON.parse(text).doc_count === 32
    })
    expect(await rowsOf(other)).toEqual(['archive-1', 'archive-orders'])
  })

  it('go on in one engine while the other one is stopped', async () => {
    const postgres = await TestPostgres.start()
    onTestFinished(() => postgres.remove())
    const leaseMs = 500
    const settings = { service: { engine_lease: String(leaseMs) } }
    const { client, service } = await serverWith({ 'shared-*': postgres.address('settle') }, { settings })
    const local = await created(client, 'local')
    const shared = await created(client, 'shared-1')
    await shared.save('doc', {})
    await postgres.halt()
    // Longer than other servers on that engine would wait for this one.
    const haltedMs = performance.now()
    for (let round = 0; round < 5 || performance.now() - haltedMs < 3 * leaseMs; round++) {
      expectUnavailable(await shared.get('doc'))
      expectUnavailable(await shared.put(`doc-${round}`, {}))
      await local.save(`doc-${round}`, { round })
      expect((await local.get(`doc-${round}`)).json).toMatchObject({ round })
      expect((await client.request('GET', '/_up')).json).toMatchObject({ status: 'ok' })
    }
    expect(await allDatabases(client)).toEqual(['local', 'shared-1'])
    const information = await client.request('POST', '/_dbs_info', { body: { keys: ['local', 'shared-1'] } })
    expect(information.json).toMatchObject([{ info: { db_name: 'local' } }, { error: 'service_unavailable' }])
    // A backup does not leave a database out in silence.
    const backup = ['backup', '--url', service.url, '--to', await temporaryFolder()]
    const incomplete = await runSettle(backup)
    expect(incomplete.code, incomplete.err).toBe(2)
    expect(incomplete.err).toContain('1 database is not backed up')
    expectUnavailable(await client.request('PUT', '/shared-2'))
    await created(client, 'local-2')
    expect((await client.request('DELETE', '/local-2')).status).toBe(200)
    expect((await client.request('GET', '/local-3')).status).toBe(404)
    await postgres.resume()
    await until(async () => (await shared.get('doc')).status === 200)
    await shared.save('later', {})
    await created(client, 'shared-2')
    const complete = await runSettle(backup)
    expect(complete.code, complete.err).toBe(0)
  })

  it('go on when a server starts without the other engine, which is used as soon as it is there', async () => {
    const postgres = await sharedPostgres()
    const proxy = await PostgresProxy.open(postgres.socket)
    onTestFinished(() => proxy.close())
    const address = postgres.address(undefined, proxy.folder)
    const dir = await temporaryFolder()
    const before = await serverWith({ 'shared-*': address, odd: address }, { dir })
    for (const name of ['local', 'shared-1', 'odd']) await (await created(before.client, name)).save('doc', {})
    await before.service.close()
    proxy.stall(true)
    // One of its databases matches no pattern any more.
    const { client, service } = await serverWith({ 'shared-*': address }, { dir })
    expect((await client.request('GET', '/local/doc')).status).toBe(200)
    expect((await client.request('GET', '/_up')).status).toBe(200)
    expect((await client.request('GET', '/_users')).status).toBe(200)
    // Nothing is said to be missing, and nothing is created, that may be there.
    for (const path of ['/shared-1', '/shared-1/doc', '/shared-2', '/odd/doc', '/_all_dbs']) {
      expectUnavailable(await client.request('GET', path))
    }
    for (const path of ['/odd', '/shared-1', '/anything']) expectUnavailable(await client.request('PUT', path))
    expect((await client.request('PUT', '/local')).status).toBe(412)
    await untilLogged(dir, 'A storage engine cannot be reached. Its databases cannot be used until it is.')
    proxy.stall(false)
    await until(async () => (await client.request('GET', '/shared-1/doc')).status === 200)
    expect((await client.request('GET', '/odd/doc')).status).toBe(200)
    expect(await allDatabases(client)).toEqual(['local', 'odd', 'shared-1'])
    await created(client, 'anything')
    // A server is closed at once, whether it was reached or not.
    proxy.stall(true)
    await service.close()
  })

  it('go on while the other engine refuses the password, which the log says without it', async () => {
    const postgres = await TestPostgres.start()
    onTestFinished(() => postgres.remove())
    postgres.requirePassword('guarded', 'r1ght')
    const address = postgres.address('guarded').replace('settle@', 'guarded:wr0ng@')
    const before = await serverWith({})
    await created(before.client, 'local')
    await before.service.close()
    const { client, dir } = await serverWith({ 'shared-*': address }, { dir: before.dir })
    const local = new TestDatabase(client, 'local')
    await local.save('first', {})
    for (const method of ['PUT', 'GET']) expectUnavailable(await client.request(method, '/shared-1'))
    await untilLogged(dir, 'A storage engine is reached and cannot be used.')
    postgres.query("ALTER ROLE guarded PASSWORD 'wr0ng'")
    await until(async () => (await client.request('PUT', '/shared-1')).status === 201)
    await untilLogged(dir, 'A storage engine is reached.')
    // Also while it runs.
    postgres.query("ALTER ROLE guarded PASSWORD 'r1ght'")
    postgres.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'guarded'")
    await until(async () => (await client.request('GET', '/shared-1')).status === 503)
    const refused = await client.request('PUT', '/shared-1/doc', { body: {} })
    expectUnavailable(refused)
    expect(refused.text).toContain('The storage engine refuses the password (28P01).')
    await local.save('doc', {})
    postgres.query("ALTER ROLE guarded PASSWORD 'wr0ng'")
    await until(async () => (await client.request('GET', '/shared-1')).status === 200)
    const lines = (await readFile(join(dir, 'settle.log'), 'utf8')).split('\n')
    expect(lines.filter((line) => line.includes('A storage engine is reached and cannot be used.'))).toEqual([
      expect.stringMatching(
        /postgres:\/\/guarded@localhost\/postgres.*The storage engine refuses the password \(28P01\)/,
      ),
    ])
    expect(lines.join()).not.toMatch(/wr0ng|r1ght/)
  })

  it('may be those of the server itself, if a pattern is their name', async () => {
    const address = (await sharedPostgres()).address()
    const { client, dir } = await serverWith({ '*': address, _users: address, _replicator: address })
    const user = { _id: 'org.couchdb.user:ann', name: 'ann', type: 'user', roles: [], password: 'secret' }
    expect((await client.request('POST', '/_users', { body: user })).status).toBe(201)
    expect((await client.request('POST', '/_session', { body: { name: 'ann', password: 'secret' } })).status).toBe(200)
    expect((await client.request('POST', '/_session', { body: { name: 'ann', password: 'no' } })).status).toBe(401)
    await (await created(client, 'source')).save('doc', {})
    const document = { _id: 'job', source: 'source', target: 'target', create_target: true }
    expect((await client.request('POST', '/_replicator', { body: document })).status).toBe(201)
    await until(async () => (await client.request('GET', '/target/doc')).status === 200)
    expect(readdirSync(dir).filter((name) => name.endsWith('.mdb'))).toEqual([])
  })
})

describeOnPostgres('several nodes with databases in two engines', () => {
  /** Every request goes to a secondary, which reads files. */
  async function behindSecondary(engines: Record<string, string>): Promise<Client> {
    const settings = { engines, service_httpd_auth: { iterations: '10' } }
    const options = { dir: await temporaryFolder(), port: 0, settings }
    const service = new PooledService(options, { secondaries: 1, withPrimary: false })
    onTestFinished(() => service.close())
    const client = new Client(await service.listen())
    onTestFinished(() => client.close())
    return client
  }

  it('show all of them', async () => {
    const client = await behindSecondary({ 'shared-*': (await sharedPostgres()).address() })
    for (const name of ['plain', 'shared-1']) await exercise(await created(client, name))
    expect(await allDatabases(client)).toEqual(['plain', 'shared-1'])
    expect((await client.request('GET', '/shared-2/doc')).status).toBe(404)
    expect((await client.request('GET', '/plain-2/doc')).status).toBe(404)
    expect((await client.request('DELETE', '/shared-1')).status).toBe(200)
    expect((await client.request('GET', '/shared-1/doc-1')).status).toBe(404)
  })

  it('keep a connection at the primary that reads what only the primary can', { timeout: 120_000 }, async () => {
    const settings = { engines: { 'shared-*': (await sharedPostgres()).address() } }
    const service = new CommandService({ dir: await temporaryFolder(), port: 0, settings }, 2)
    onTestFinished(() => service.close())
    await service.listen()
    await until(() => service.listeningPids().length === 2)
    const secondary = service.listeningPids().find((pid) => pid !== service.primaryPid) ?? 0
    const connection = await PlacedConnection.openAt(service.url, secondary)
    for (const path of ['/shared-1', '/shared-1/doc']) {
      expect(await connection.request('PUT', path, {})).toMatchObject({ status: 201 })
    }
    for (let i = 0; i < 200 && connection.holders([secondary]).length === 1; i++) {
      expect(await connection.request('GET', '/shared-1/doc')).toMatchObject({ status: 200 })
    }
    expect(connection.holders([secondary])).toEqual([])
    connection.write(requestText('GET', '/shared-1/doc').repeat(1200))
    expect(await connection.replies(1200)).toHaveLength(1200)
    expect(connection.isClosed).toBe(false)
    connection.close()
  })

  it('know the users, also where these are in PostgreSQL', async () => {
    const client = await behindSecondary({ _users: (await sharedPostgres()).address() })
    await created(client, 'plain')
    const user = { _id: 'org.couchdb.user:ann', name: 'ann', type: 'user', roles: ['readers'], password: 'secret' }
    expect((await client.request('POST', '/_users', { body: user })).status).toBe(201)
    const headersOf = (password: string) => ({
      Authorization: `Basic ${Buffer.from(`ann:${password}`).toString('base64')}`,
    })
    const session = await client.request('GET', '/_session', { headers: headersOf('secret') })
    expect(session.json).toMatchObject({ userCtx: { name: 'ann', roles: ['readers'] } })
    expect((await client.request('GET', '/plain/_all_docs', { headers: headersOf('secret') })).status).toBe(200)
    expect((await client.request('GET', '/plain/_all_docs', { headers: headersOf('wrong') })).status).toBe(401)
  })
})

describeOnPostgres('the settings of several engines', () => {
  const FORM = 'or an address such as postgres://user:password@host:port/database.'

  async function refusal(options: ServiceOptions): Promise<string> {
    const dir = await temporaryFolder()
    try {
      const service = await createService({ port: 0, ...(options.inMemory ? {} : { dir }), ...options })
      await service.close()
      return ''
    } catch (error) {
      return String(error)
    }
  }

  it('are refused at the start where they make no sense', async () => {
    const address = (await sharedPostgres()).address()
    expect(await refusal({ settings: { engines: { 'a-*': 'mysql://u:s3cret@h/d' } } })).toBe(
      `SettingError: The setting engines/a-* must be files, ${FORM}`,
    )
    expect(await refusal({ settings: { engines: { 'A?': 'files' } } })).toBe(
      'SettingError: In [engines], "A?" is not a name of databases, or a pattern of names with *.',
    )
    expect(await refusal({ engine: address, settings: { engines: { a: 'files' } } })).toMatch(
      /^SettingError: The setting engines\/a cannot be files on a server whose own engine is PostgreSQL/,
    )
    expect(await refusal({ inMemory: true, settings: { engines: { a: address } } })).toMatch(
      /^SettingError: A server that keeps everything in memory has no other engines/,
    )
    expect(await refusal({ environment: { SETTLE_ENGINES: 'a' } })).toBe(
      `SettingError: The setting engines/a must be files, ${FORM}`,
    )
    // The same tables by another address.
    const twin = `${address.replace('settle@', 'settle:s3cret@')}&application_name=x`
    const twice = await refusal({ settings: { engines: { a: address, b: twin } } })
    expect(twice).toMatch(/^StorageError: Two addresses lead to the same tables/)
    expect(twice).not.toContain('s3cret')
    expect(await refusal({ settings: { engines: { a: address, b: address } } })).toBe('')
  })

  it('show no password, and cannot be changed by a request', async () => {
    const address = (await sharedPostgres()).address().replace('settle@', 'settle:s3cret@')
    const dir = await temporaryFolder()
    await mkdir(dir, { recursive: true })
    await writeFile(join(dir, 'local.ini'), `[engines]\nby-file-* = ${address}\n`)
    const environment = { SETTLE_ENGINES: ` by-variable-*=${address}  other=files` }
    const { client } = await serverWith({}, { dir, environment, settings: { log: { level: 'debug' } } })
    for (const name of ['by-file-1', 'by-variable-1', 'other']) await created(client, name)
    expect(filesIn(dir)).toEqual(['other'])
    for (const path of ['/_config', '/_config?layers=true', '/_config/engines', '/_config/engines/by-file-*']) {
      const reply = await client.request('GET', path)
      expect(reply.status).toBe(200)
      expect(reply.text).not.toContain('s3cret')
    }
    expect((await client.request('GET', '/_config/engines')).json).toEqual({
      'by-file-*': expect.stringMatching(/^postgres:\/\/settle@localhost\/postgres/),
      'by-variable-*': expect.stringMatching(/^postgres:\/\/settle@localhost\/postgres/),
      other: 'files',
    })
    for (const [method, body] of [
      ['PUT', 'files'],
      ['DELETE', undefined],
    ] as const) {
      const reply = await client.request(method, '/_config/engines/by-file-*', { body })
      expectRefusal(reply, 400, 'modification_not_allowed', 'This config variable is read-only')
    }
    expect((await client.request('GET', '/_log?bytes=100000')).text).not.toContain('s3cret')
    expect(await readFile(join(dir, 'settle.log'), 'utf8')).not.toContain('s3cret')
  })
})
