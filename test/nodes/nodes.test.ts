import { existsSync, readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { connect, createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Client } from '../support/client.ts'
import { FeedClient } from '../support/feed.ts'
import { CommandService } from '../support/test-service.ts'
import { until } from '../support/until.ts'
import { clientsOfNodes, type NodeClient } from './node-clients.ts'

let folder: string
let service: CommandService
let nodes: NodeClient[]
let databases = 0

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'settle-test-'))
  const settings = { service_httpd_auth: { iterations: '10' } }
  service = new CommandService({ dir: folder, port: 0, settings }, 3)
  await service.listen()
  nodes = await clientsOfNodes(service.url, folder, service.listeningPids())
}, 180_000)

afterAll(async () => {
  for (const node of nodes ?? []) node.close()
  await service?.close()
  await rm(folder, { recursive: true, force: true })
}, 60_000)

/** A database that was made through one of the nodes. */
async function database(): Promise<string> {
  const name = `db-${++databases}`
  const { status, text } = await nodes[databases % nodes.length]!.request('PUT', `/${name}`)
  expect(status, text).toBe(201)
  return name
}

describe('three nodes of one machine', { timeout: 120_000 }, () => {
  it('answer on one port, from processes of their own', () => {
    expect(new Set(nodes.map(({ pid }) => pid)).size).toBe(3)
  })

  it('are each given a share of the connections that come in bursts', async () => {
    const pids = nodes.map(({ pid }) => pid)
    const { hostname, port } = new URL(service.url)
    const given = pids.map(() => 0)
    // Which of them runs at a moment is for the system to say, so one burst is not enough to tell.
    await until(async () => {
      const before = pids.map((pid) => connectionCount(pid, port))
      const sockets = await Promise.all(Array.from({ length: 30 }, () => answered(hostname, Number(port))))
      for (const [i, pid] of pids.entries()) given[i]! += connectionCount(pid, port) - before[i]!
      for (const socket of sockets) socket.destroy()
      await until(() => pids.every((pid, i) => connectionCount(pid, port) <= before[i]!))
      const all = given.reduce((sum, each) => sum + each, 0)
      return all >= 150 && Math.min(...given) >= all / 10
    }, 60_000)
  })

  it('show a write at every node as soon as it is acknowledged, whichever took it', async () => {
    const db = await database()
    for (let round = 0; round < 12; round++) {
      const writer = nodes[round % 3]!
      const { rev } = await writer.json('PUT', `/${db}/doc-${round}`, { body: { round } })
      for (const node of nodes)
        expect(await node.json('GET', `/${db}/doc-${round}`)).toMatchObject({ _rev: rev, round })
      for (const node of nodes)
        expect(await node.json('GET', `/${db}/_all_docs`)).toMatchObject({ total_rows: round + 1 })
    }
  })

  it('share the memory for bodies of requests, and follow changes of the limit', async () => {
    for (const megabytes of [40, 80]) {
      const body = JSON.stringify(String(megabytes * 1024 * 1024))
      await nodes[1]!.request('PUT', '/_config/httpd/max_body_memory', { body })
      const { text } = await nodes[2]!.request('GET', '/_node/_local/_prometheus')
      const [, limit] = /^settle_body_memory_limit_bytes (\S+)$/m.exec(text) ?? []
      expect(Math.round(Number(limit))).toBe(megabytes * 1024 * 1024)
    }
    await nodes[1]!.request('DELETE', '/_config/httpd/max_body_memory')
  })

  it('show at once that a database was created or deleted, and end the feeds of a deleted one', async () => {
    for (let round = 0; round < 3; round++) {
      const name = `short-lived-${round}`
      await nodes[round]!.request('PUT', `/${name}`)
      for (const node of nodes) expect((await node.request('GET', `/${name}/_all_docs`)).status).toBe(200)
      const feed = await FeedClient.open(new Client(service.url), `/${name}/_changes?feed=continuous`)
      await nodes[(round + 1) % 3]!.request('DELETE', `/${name}`)
      for (const node of nodes) expect((await node.request('GET', `/${name}/_all_docs`)).status).toBe(404)
      await until(() => feed.state !== 'open')
    }
  })

  it('distinguish a database from the next one of its name', async () => {
    for (let round = 0; round < 6; round++) {
      const writer = nodes[round % 3]!
      expect((await writer.request('PUT', '/again')).status).toBe(201)
      for (const node of nodes) expect((await node.request('GET', '/again/doc')).status).toBe(404)
      await writer.request('PUT', '/again/doc', { body: { round } })
      for (const node of nodes) expect(await node.json('GET', '/again/doc')).toMatchObject({ round })
      expect((await writer.request('DELETE', '/again')).status).toBe(200)
    }
  })

  it('wake the feeds of every node', async () => {
    const db = await database()
    const feeds = nodes.map((node) => node.json('GET', `/${db}/_changes?feed=longpoll&since=0`))
    // The connections to the nodes are busy.
    const client = new Client(service.url)
    await client.request('PUT', `/${db}/doc`, { body: {} })
    client.close()
    for (const feed of await Promise.all(feeds)) expect(feed).toMatchObject({ results: [{ id: 'doc', seq: 1 }] })
  })

  it('show a view of the newest documents and of the newest design document', async () => {
    const db = await database()
    await nodes[0]!.request('PUT', `/${db}/one`, { body: { n: 1 } })
    const view = (factor: number) => ({
      views: { v: { map: `function (doc) { if (doc.n) emit(doc._id, doc.n * ${factor}) }`, reduce: '_sum' } },
    })
    const { rev } = await nodes[1]!.json('PUT', `/${db}/_design/d`, { body: view(10) })
    const sum = async (node: NodeClient) =>
      (await node.json('GET', `/${db}/_design/d/_view/v`)).rows as { value: number }[]
    for (const node of nodes) expect(await sum(node)).toMatchObject([{ value: 10 }])
    for (const [i, node] of nodes.entries()) {
      await node.request('PUT', `/${db}/more-${i}`, { body: { n: 1 } })
      for (const each of nodes) expect(await sum(each)).toMatchObject([{ value: 10 * (i + 2) }])
    }
    await nodes[2]!.request('PUT', `/${db}/_design/d?rev=${rev}`, { body: view(100) })
    for (const node of nodes) expect(await sum(node)).toMatchObject([{ value: 400 }])
  })

  it('combine reductions of user functions', async () => {
    const db = await database()
    for (let i = 0; i < 5; i++) await nodes[i % 3]!.request('PUT', `/${db}/${i}`, { body: { i } })
    const reduce = 'function (keys, values) { return Math.max.apply(null, values) }'
    const views = { v: { map: 'function (doc) { emit(doc.i, doc.i) }', reduce } }
    await nodes[0]!.request('PUT', `/${db}/_design/d`, { body: { views } })
    for (const node of nodes) {
      expect(await node.json('GET', `/${db}/_design/d/_view/v?endkey=3`)).toMatchObject({ rows: [{ value: 3 }] })
    }
  })

  it('find documents by selectors, with indexes', async () => {
    const db = await database()
    for (let i = 0; i < 6; i++) await nodes[i % 3]!.request('PUT', `/${db}/${i}`, { body: { i } })
    await nodes[1]!.request('POST', `/${db}/_index`, { body: { index: { fields: ['i'] } } })
    for (const node of nodes) {
      const { docs } = await node.json('POST', `/${db}/_find`, { body: { selector: { i: { $gt: 3 } }, fields: ['i'] } })
      expect(docs).toEqual([{ i: 4 }, { i: 5 }])
    }
  })

  it('switch to the files that compaction writes, and release the old ones', async () => {
    const db = await database()
    for (let i = 0; i < 20; i++) await nodes[i % 3]!.request('PUT', `/${db}/${i}`, { body: { text: 'x'.repeat(1000) } })
    for (const node of nodes) await node.request('GET', `/${db}/_all_docs?include_docs=true`)
    await nodes[2]!.request('POST', `/${db}/_compact`, { body: '' })
    await until(async () => !(await nodes[0]!.json('GET', `/${db}`)).compact_running)
    for (const [i, writer] of nodes.entries()) {
      await writer.request('PUT', `/${db}/later-${i}`, { body: { i } })
      for (const node of nodes) expect(await node.json('GET', `/${db}/later-${i}`)).toMatchObject({ i })
    }
    // The first generation is mapped by nobody.
    await until(() =>
      nodes.every(
        ({ pid }) => !new RegExp(`${db}\\.\\d+\\.mdb \\(deleted\\)`).test(readFileSync(`/proc/${pid}/maps`, 'utf8')),
      ),
    )
  })

  it('send contents of attachments', async () => {
    const db = await database()
    const { rev } = await nodes[0]!.json('PUT', `/${db}/doc`, { body: {} })
    const content = 'c'.repeat(300_000)
    const upload = { headers: { 'Content-Type': 'text/plain' }, body: content }
    expect((await nodes[1]!.request('PUT', `/${db}/doc/file?rev=${rev}`, upload)).status).toBe(201)
    for (const node of nodes) {
      expect((await node.request('GET', `/${db}/doc/file`)).text).toBe(content)
      expect((await node.request('GET', `/${db}/doc?attachments=true`)).text).toContain('"data":"Y2Nj')
    }
  })

  it('count and log for all of them', async () => {
    const db = await database()
    await nodes[0]!.request('PUT', `/${db}/counted`, { body: {} })
    const reads = async (node: NodeClient) => {
      const { service } = await node.json('GET', '/_stats/service/database_reads?flush=true')
      return (service as { database_reads: { sum: number | null } }).database_reads.sum ?? 0
    }
    const before = await reads(nodes[0]!)
    for (const node of nodes) await node.request('GET', `/${db}/counted?logged=${node.pid}`)
    for (const node of nodes) expect(await reads(node)).toBe(before + 3)
    const timed = async () => {
      const { text } = await nodes[1]!.request('GET', '/_node/_local/_prometheus')
      return Number(/^settle_request_duration_seconds_count{method="HEAD"} (\d+)$/m.exec(text)?.[1] ?? 0)
    }
    const timedBefore = await timed()
    for (const node of nodes) await node.request('HEAD', `/${db}/counted`)
    expect(await timed()).toBe(timedBefore + 3)
    const log = (await nodes[2]!.request('GET', '/_log?bytes=100000')).text
    for (const node of nodes) expect(log).toMatch(new RegExp(`\\[${node.pid}\\].*logged=${node.pid} 200`))
  })

  it('follow a change of settings before it is answered', async () => {
    for (const [i, node] of nodes.entries()) {
      await node.request('PUT', '/_config/vendor/name', { body: JSON.stringify(`Name ${i}`) })
      for (const each of nodes) expect(await each.json('GET', '/')).toMatchObject({ vendor: { name: `Name ${i}` } })
      await node.request('DELETE', '/_config/vendor/name')
      for (const each of nodes) expect((await each.json('GET', '/')).vendor).not.toHaveProperty('name')
    }
  })

  it('apply changed rights at once', async () => {
    const db = await database()
    const basic = (name: string, password: string) => ({
      headers: { Authorization: `Basic ${Buffer.from(`${name}:${password}`).toString('base64')}` },
    })
    const admin = basic('admin', 'secret')
    await nodes[0]!.request('PUT', '/_config/admins/admin', { body: '"secret"' })
    try {
      for (const node of nodes) expect((await node.request('GET', '/_all_dbs', admin)).status).toBe(200)
      for (const [i, node] of nodes.entries()) {
        const user = { _id: `org.couchdb.user:u${i}`, name: `u${i}`, type: 'user', roles: [], password: 'first' }
        const { rev } = await node.json('PUT', `/_users/${user._id}`, { ...admin, body: user })
        for (const each of nodes)
          expect((await each.request('GET', `/${db}/_all_docs`, basic(user.name, 'first'))).status).toBe(200)
        await node.request('PUT', `/_users/${user._id}?rev=${rev}`, { ...admin, body: { ...user, password: 'second' } })
        for (const each of nodes) {
          expect((await each.request('GET', `/${db}/_all_docs`, basic(user.name, 'first'))).status).toBe(401)
          expect((await each.request('GET', `/${db}/_all_docs`, basic(user.name, 'second'))).status).toBe(200)
        }
        const security = { members: { names: [`u${i}`], roles: [] } }
        await node.request('PUT', `/${db}/_security`, { ...admin, body: security })
        for (const each of nodes) {
          expect((await each.request('GET', `/${db}/_all_docs`, basic(user.name, 'second'))).status).toBe(200)
          expect((await each.request('GET', `/${db}/_all_docs`)).status).toBe(401)
        }
        await node.request('PUT', `/${db}/_security`, { ...admin, body: {} })
      }
    } finally {
      await nodes[1]!.request('DELETE', '/_config/admins/admin', admin)
    }
  })

  it('stream large bodies in both directions', async () => {
    const db = await database()
    const docs = Array.from({ length: 3000 }, (_, i) => ({ _id: `d${i}`, text: 'y'.repeat(500) }))
    for (const [i, node] of nodes.entries()) {
      const { status } = await node.request('POST', `/${db}/_bulk_docs`, {
        body: { docs: docs.slice(i * 1000, (i + 1) * 1000) },
      })
      expect(status).toBe(201)
      for (const each of nodes) {
        const { rows } = await each.json('GET', `/${db}/_all_docs?include_docs=true`)
        expect(rows).toHaveLength((i + 1) * 1000)
      }
    }
  })

  it('move to another port together', async () => {
    const before = Number(new URL(service.url).port)
    const port = await freePort()
    const client = new Client(service.url)
    await client.request('PUT', '/_config/httpd/port', { body: JSON.stringify(String(port)) })
    client.close()
    expect(service.listeningPids(port)).toHaveLength(3)
    const moved = new Client(`http://127.0.0.1:${port}/`)
    for (let i = 0; i < 6; i++) expect((await moved.request('GET', '/_all_dbs')).status).toBe(200)
    await moved.request('PUT', '/_config/httpd/port', { body: JSON.stringify(String(before)) })
    moved.close()
    await until(() => service.listeningPids(before).length === 3 && service.listeningPids(port).length === 0)
  })

  it('move to another address of their port together', async () => {
    const port = Number(new URL(service.url).port)
    for (const address of ['0.0.0.0', '127.0.0.1']) {
      const client = new Client(`http://127.0.0.1:${port}/`)
      const reply = await client.request('PUT', '/_config/httpd/bind_address', { body: JSON.stringify(address) })
      expect(reply.status).toBe(200)
      client.close()
      expect(service.url).toBe(`http://${address}:${port}/`)
      expect(service.listeningPids(port)).toHaveLength(3)
    }
  })

  it('continue after a restart that any of them was asked for', async () => {
    const db = await database()
    await nodes[0]!.request('PUT', `/${db}/before`, { body: {} })
    const node = nodes.find(({ pid }) => pid !== Math.min(...nodes.map((each) => each.pid)))!
    expect((await node.request('POST', '/_restart', { body: '' })).status).toBe(202)
    const client = new Client(service.url)
    await until(async () => {
      const reply = await client.request('PUT', `/${db}/after`, { body: {} }).catch(() => undefined)
      return reply?.status === 201 || reply?.status === 409
    }, 60_000)
    for (let i = 0; i < 12; i++) {
      expect((await client.request('GET', `/${db}/before`)).status).toBe(200)
      expect((await client.request('GET', `/${db}/after`)).status).toBe(200)
    }
    client.close()
  })
})

it('leaves no process and no folder behind', { timeout: 180_000 }, async () => {
  const dir = await mkdtemp(join(tmpdir(), 'settle-test-'))
  const command = new CommandService({ dir, port: 0 }, 2)
  await command.listen()
  const pids = command.listeningPids()
  const sockets = pids.flatMap(listeningSockets)
  // Those in the data folder go alone, others with the temporary folder that they are in.
  const made = [...sockets, ...sockets.map(dirname).filter((folder) => !folder.startsWith(dir))]
  expect(made.length).toBeGreaterThan(sockets.length)
  expect(made.filter((path) => !existsSync(path))).toEqual([])
  await command.close()
  expect(pids.filter((pid) => existsSync(`/proc/${pid}`))).toEqual([])
  expect(made.filter((path) => existsSync(path))).toEqual([])
  await rm(dir, { recursive: true, force: true })
})

/** A connection on which a request was answered. */
function answered(host: string, port: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, host, () => socket.write(`GET / HTTP/1.1\r\nHost: ${host}\r\n\r\n`))
    socket.once('data', () => resolve(socket)).on('error', reject)
  })
}

/** How many clients are connected to a process at this port. */
function connectionCount(pid: number, port: string): number {
  const local = `:${Number(port).toString(16).toUpperCase().padStart(4, '0')}`
  const lines = readFileSync('/proc/net/tcp', 'utf8').split('\n')
  const inodes = lines.flatMap((line) => {
    const [, address = '', , state, , , , , , inode] = line.trim().split(/\s+/)
    return address.endsWith(local) && state === ESTABLISHED ? [`socket:[${inode}]`] : []
  })
  const own = new Set(descriptorsOf(pid))
  return inodes.filter((inode) => own.has(inode)).length
}

const ESTABLISHED = '01'

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer().once('error', reject)
    server.listen(0, '127.0.0.1', () => {
      const address = server.address()
      server.close(() => resolve(typeof address === 'object' && address ? address.port : 0))
    })
  })
}

/** The paths of the Unix sockets that a process listens on. */
function listeningSockets(pid: number): string[] {
  const descriptors = descriptorsOf(pid)
  const lines = readFileSync('/proc/net/unix', 'utf8').split('\n')
  const sockets = lines.map((line) => line.trim().split(/\s+/))
  return sockets.flatMap(([, , , , , , inode, path]) =>
    path !== undefined && descriptors.includes(`socket:[${inode}]`) ? [path] : [],
  )
}

/** What they lead to. */
function descriptorsOf(pid: number): string[] {
  return readdirSync(`/proc/${pid}/fd`).flatMap((name) => {
    try {
      return [readlinkSync(`/proc/${pid}/fd/${name}`)]
    } catch {
      return []
    }
  })
}
