/**
 * PouchDB in two-way live sync with a database of this server, as offline applications use it: documents, deletions,
 * attachments and conflicts come over in both directions, while both sides are written to.
 */
import { randomBytes } from 'node:crypto'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import type { Dialect } from '../../src/config/dialect.ts'
import { startService } from '../support/service.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { isBalanced } from '../support/test-service.ts'
import { until } from '../support/until.ts'

interface PouchDocument {
  _id: string
  _rev: string
  _conflicts?: string[]
  [member: string]: unknown
}

interface Written {
  id: string
  rev: string
}

interface Sync extends Promise<unknown> {
  readonly pull: Sync
  cancel(): void
  on(event: string, listener: (value: unknown) => void): Sync
}

/** What the tests use of PouchDB, which comes without types. */
interface Pouch {
  put(document: object): Promise<Written>
  get(id: string, options?: object): Promise<PouchDocument>
  remove(id: string, rev: string): Promise<Written>
  putAttachment(id: string, name: string, rev: string, content: Buffer, type: string): Promise<Written>
  getAttachment(id: string, name: string): Promise<Buffer>
  allDocs(options?: object): Promise<{ rows: { id: string; value: { rev: string }; doc?: PouchDocument }[] }>
  info(): Promise<unknown>
  sync(other: Pouch | string, options?: object): Sync
  close(): Promise<void>
}

const PouchDB: new (name: string) => Pouch = createRequire(import.meta.url)('pouchdb')

async function localDatabase(): Promise<Pouch> {
  const db = new PouchDB(join(await temporaryFolder(), 'local'))
  onTestFinished(() => db.close())
  return db
}

/** Ids, winners and conflicts of all documents: what two sides must agree on. */
async function state(db: Pouch): Promise<unknown[]> {
  const { rows } = await db.allDocs({ include_docs: true, conflicts: true })
  return rows.map(({ id, value, doc }) => ({ id, rev: value.rev, conflicts: [...(doc?._conflicts ?? [])].sort() }))
}

async function agree(one: Pouch, other: Pouch, count: number): Promise<void> {
  await expect
    .poll(async () => {
      const [here, there] = await Promise.all([state(one), state(other)])
      return here.length === count && JSON.stringify(here) === JSON.stringify(there)
    }, POLL)
    .toBe(true)
}

const POLL = { interval: 50 }

const DIALECTS: readonly Dialect[] = ['1.6', '3']

describe('PouchDB in live sync', () => {
  it('brings documents, deletions and attachments both ways, while they are written', async () => {
    const { url } = await startService()
    const [local, remote] = [await localDatabase(), new PouchDB(`${url}things`)]
    const sync = local.sync(remote, { live: true, retry: true, batch_size: 20 })
    const failures: unknown[] = []
    sync.on('error', (error) => failures.push(error)).on('denied', (error) => failures.push(error))
    const picture = randomBytes(100_000)
    const text = Buffer.from('some text that packs well. '.repeat(500))
    for (let i = 0; i < 30; i++) {
      const [here, there] = await Promise.all([
        local.put({ _id: `here/${i}`, n: i }),
        remote.put({ _id: `there/${i}`, n: i }),
      ])
      if (i % 10 === 0) {
        await local.putAttachment(here.id, 'picture.png', here.rev, picture, 'image/png')
        await remote.putAttachment(there.id, 'text ü.txt', there.rev, text, 'text/plain')
      }
      if (i % 10 === 5) {
        await local.remove(here.id, here.rev)
        await remote.remove(there.id, there.rev)
      }
    }
    await agree(local, remote, 54)
    expect((await remote.getAttachment('here/10', 'picture.png')).equals(picture)).toBe(true)
    expect((await local.getAttachment('there/20', 'text ü.txt')).equals(text)).toBe(true)
    sync.cancel()
    await sync
    expect(failures).toEqual([])
  })

  it('agrees on the winner of a conflict, and on its end', async () => {
    const { url } = await startService()
    const [first, second] = [await localDatabase(), await localDatabase()]
    const remote = new PouchDB(`${url}things`)
    const { rev } = await first.put({ _id: 'doc', n: 1 })
    await first.sync(remote)
    await second.sync(remote)
    // Both are offline now.
    await first.put({ _id: 'doc', _rev: rev, n: 2, by: 'first' })
    const edited = await second.put({ _id: 'doc', _rev: rev, n: 2, by: 'second' })
    await second.putAttachment('doc', 'a.txt', edited.rev, Buffer.from('of the second'), 'text/plain')
    const syncs = [first, second].map((db) => db.sync(remote, { live: true, retry: true }))
    for (const db of [first, second]) await agree(db, remote, 1)
    const { _conflicts = [], ...winner } = await remote.get('doc', { conflicts: true })
    expect(_conflicts).toHaveLength(1)
    expect(winner).toMatchObject({ by: 'second' })
    for (const losing of _conflicts) await first.remove('doc', losing)
    for (const db of [first, second, remote]) {
      await expect.poll(async () => (await db.get('doc', { conflicts: true }))._conflicts, POLL).toBeUndefined()
      expect((await db.getAttachment('doc', 'a.txt')).toString()).toBe('of the second')
    }
    for (const sync of syncs) sync.cancel()
    await Promise.all(syncs)
  })

  // Behind a secondary no node has the port that the server is given.
  it.skipIf(isBalanced).each(DIALECTS)('resumes when the server was away, in dialect %s', async (dialect) => {
    const dir = await temporaryFolder()
    const server = await startService({ dir, dialect })
    const port = Number(new URL(server.url).port)
    const [local, remote] = [await localDatabase(), new PouchDB(`${server.url}things`)]
    const requests = informationRequests(remote)
    const sync = local.sync(remote, { ...LIVE, back_off_function: () => 50 })
    const pulled = checkpoint(sync.pull)
    await local.put({ _id: 'before', n: 1 })
    await agree(local, remote, 1)
    await pulled
    await until(() => requests.size === 0)
    await server.close()
    const { rev } = await local.put({ _id: 'meanwhile', n: 1 })
    await local.putAttachment('meanwhile', 'a.txt', rev, Buffer.from('made offline'), 'text/plain')
    await startService({ dir, dialect, port })
    await agree(local, remote, 2)
    await remote.put({ _id: 'after', n: 1 })
    await agree(local, remote, 3)
    expect((await remote.getAttachment('meanwhile', 'a.txt')).toString()).toBe('made offline')
    sync.cancel()
    await sync
  })

  it('meets, on another server, who syncs with a database that is replicated from there and to there', async () => {
    const { url } = await startService()
    const databases = ['here', 'there']
    for (const name of databases) await fetch(url + name, { method: 'PUT' })
    for (const [source, target] of [databases, databases.toReversed()]) {
      const body = JSON.stringify({ source, target, continuous: true })
      const reply = await fetch(`${url}_replicator`, { method: 'POST', body, headers: JSON_TYPE })
      expect(reply.status).toBe(201)
    }
    const [ann, ben] = [await localDatabase(), await localDatabase()]
    const syncs = [ann.sync(`${url}here`, LIVE), ben.sync(`${url}there`, LIVE)]
    const { rev } = await ann.put({ _id: 'from-ann', n: 1 })
    await ann.putAttachment('from-ann', 'a.bin', rev, Buffer.alloc(200_000, 7), 'application/octet-stream')
    await ben.put({ _id: 'from-ben', n: 1 })
    await agree(ann, ben, 2)
    expect((await ben.getAttachment('from-ann', 'a.bin')).equals(Buffer.alloc(200_000, 7))).toBe(true)
    for (const sync of syncs) sync.cancel()
    await Promise.all(syncs)
  })
})

/** Those under way. After each batch PouchDB makes one whose failure it does not handle, which would fail the whole run. */
function informationRequests(remote: Pouch): ReadonlySet<Promise<unknown>> {
  const requests = new Set<Promise<unknown>>()
  const ask = remote.info.bind(remote)
  remote.info = () => {
    const request = ask()
    requests.add(request)
    const end = () => requests.delete(request)
    request.then(end, end)
    return request
  }
  return requests
}

/** Resolves when a replication has written its first checkpoint. */
function checkpoint(replication: Sync): Promise<void> {
  return new Promise((resolve) => {
    replication.on('checkpoint', (event) => {
      if (typeof event === 'object' && event !== null && 'checkpoint' in event) resolve()
    })
  })
}

const JSON_TYPE = { 'Content-Type': 'application/json' }
const LIVE = { live: true, retry: true }
