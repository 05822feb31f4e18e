import { mkdtemp, rm } from 'node:fs/promises'
import { Agent, request } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { certificate } from '../support/certificate.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { CommandService } from '../support/test-service.ts'
import { until } from '../support/until.ts'
import { PlacedConnection, requestText } from './placed-connection.ts'

/** More forwarded requests in a row than a connection stays for. */
const MANY = 40

interface Nodes {
  readonly service: CommandService
  readonly primary: number
  readonly secondary: number
  readonly supervisor: number
}

async function nodesOf(service: CommandService): Promise<Nodes> {
  let primary: number | undefined
  await until(() => {
    primary = service.primaryPid
    return primary !== undefined && service.listeningPids().length === 2
  })
  const secondary = service.listeningPids().find((pid) => pid !== primary)
  if (primary === undefined || secondary === undefined || service.pid === undefined)
    throw new Error('There are no nodes.')
  return { service, primary, secondary, supervisor: service.pid }
}

async function started(settings: Record<string, Record<string, string>> = {}): Promise<Nodes> {
  const service = new CommandService({ dir: await temporaryFolder(), port: 0, settings }, 2)
  onTestFinished(() => service.close())
  await service.listen()
  return nodesOf(service)
}

/** Writes one document after the other, until the connection has moved; returns how many. */
async function writeUntilMoved(
  connection: PlacedConnection,
  { primary, secondary }: Nodes,
  path: string,
): Promise<number> {
  let written = 0
  const isMoved = () => connection.holders([primary, secondary]).join() === String(primary)
  for (; written < 200 && !isMoved(); written++) {
    expect(await connection.request('PUT', `${path}-${written}`, {})).toMatchObject({ status: 201 })
    if (written >= MANY) await until(() => connection.holders([primary, secondary]).length === 1)
  }
  expect(isMoved()).toBe(true)
  return written
}

let service: CommandService
let nodes: Nodes
let folder: string
let places = 0

/** The beginning of paths that no other test has, nor this one when it is run again. */
function place(name: string): string {
  return `/db/${name}-${places++}`
}

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'settle-test-'))
  service = new CommandService({ dir: folder, port: 0 }, 2)
  await service.listen()
  nodes = await nodesOf(service)
  const connection = await PlacedConnection.open(service.url)
  expect(await connection.request('PUT', '/db')).toMatchObject({ status: 201 })
  connection.close()
}, 180_000)

afterAll(async () => {
  await service?.close()
  await rm(folder, { recursive: true, force: true })
}, 60_000)

describe('a connection to a secondary', { timeout: 120_000 }, () => {
  it('moves to the primary when one request after the other is forwarded, and its requests are answered there', async () => {
    const { primary, secondary } = nodes
    const connection = await PlacedConnection.openAt(service.url, secondary)
    const path = place('moving')
    await writeUntilMoved(connection, nodes, path)
    expect(await connection.request('GET', `${path}-3`)).toMatchObject({ status: 200 })
    expect(await connection.request('PUT', `${path}-later`, { later: true })).toMatchObject({ status: 201 })
    expect(connection.holders([primary, secondary])).toEqual([primary])
    connection.close()
  })

  it('stays where it reads now and then', async () => {
    const { primary, secondary } = nodes
    const connection = await PlacedConnection.openAt(service.url, secondary)
    const path = place('mixed')
    for (let i = 0; i < 4 * MANY; i++) {
      expect(await connection.request('PUT', `${path}-${i}`, {})).toMatchObject({ status: 201 })
      if (i % 20 === 0) expect(await connection.request('GET', `${path}-${i}`)).toMatchObject({ status: 200 })
    }
    expect(connection.holders([primary, secondary])).toEqual([secondary])
    connection.close()
  })

  it('moves with requests that were pipelined, which are answered in their order, however they are cut', async () => {
    const { primary, secondary } = nodes
    for (const cutBytes of [7, 150, 1000, 60_000]) {
      const connection = await PlacedConnection.openAt(service.url, secondary)
      const first = place('pipelined')
      const path = (i: number) => `${first}-${i}`
      const sent = Array.from({ length: 150 }, (_, i) => requestText('PUT', path(i), { i, text: 'x'.repeat(i) })).join(
        '',
      )
      for (let at = 0; at < sent.length; at += cutBytes) {
        connection.write(sent.slice(at, at + cutBytes))
        // So that pieces come one by one, in many turns of the server.
        if (at % 10 === 0) await new Promise((resolve) => setImmediate(resolve))
      }
      const replies = await connection.replies(150)
      expect(replies.map(({ status }) => status)).toEqual(replies.map(() => 201))
      expect(replies.map(({ body }) => JSON.parse(body).id)).toEqual(replies.map((_, i) => path(i).slice(4)))
      expect(replies).toHaveLength(150)
      await writeUntilMoved(connection, nodes, path(0))
      expect(JSON.parse((await connection.request('GET', path(149))).body)).toMatchObject({ i: 149 })
      expect(connection.holders([primary, secondary])).toEqual([primary])
      connection.close()
    }
  })

  it('is closed after many requests in a row that any node can answer, with the reply to the last one', async () => {
    const { primary, secondary } = nodes
    const connection = await PlacedConnection.openAt(service.url, secondary)
    const path = place('loaded')
    await writeUntilMoved(connection, nodes, path)
    const reads = (count: number) => connection.write(requestText('GET', `${path}-1`).repeat(count))
    reads(900)
    expect(await connection.replies(900)).toHaveLength(900)
    expect(await connection.request('PUT', `${path}-between`, {})).toMatchObject({ status: 201 })
    reads(999)
    expect(await connection.replies(999)).toHaveLength(999)
    expect(connection.holders([primary, secondary])).toEqual([primary])
    expect(connection.isClosed).toBe(false)
    expect(await connection.request('GET', `${path}-2`)).toMatchObject({ status: 200 })
    await until(() => connection.isClosed)
  })

  it('is not closed where the primary has accepted it itself', async () => {
    const connection = await PlacedConnection.openAt(service.url, nodes.primary)
    connection.write(requestText('GET', '/db').repeat(10) + requestText('GET', '/').repeat(1200))
    expect(await connection.replies(1210)).toHaveLength(1210)
    expect(await connection.request('GET', '/')).toMatchObject({ status: 200 })
    connection.close()
  })

  it('keeps the address of its client', async () => {
    const { secondary } = nodes
    const connection = await PlacedConnection.openAt(service.url, secondary)
    await writeUntilMoved(connection, nodes, place('addressed'))
    await connection.request('GET', '/?from-where')
    const log = await (await fetch(`${service.url}_log?bytes=2000`)).text()
    expect(log).toMatch(new RegExp(`\\[${nodes.primary}\\] 127\\.0\\.0\\.1 .*from-where 200`))
    connection.close()
  })

  it('has its last request answered when the server is stopped', async () => {
    const others = await started()
    const connection = await PlacedConnection.openAt(others.service.url, others.secondary)
    await connection.request('PUT', '/db')
    await writeUntilMoved(connection, others, '/db/doc')
    const last = requestText('PUT', '/db/last', { text: 'x'.repeat(1000) })
    connection.write(last.slice(0, -500))
    // It has begun when another one is answered that came later.
    expect((await fetch(`${others.service.url}db`)).status).toBe(200)
    const port = Number(new URL(others.service.url).port)
    const closing = others.service.close()
    await until(() => others.service.listeningPids(port).length === 0)
    connection.write(last.slice(-500))
    expect(await connection.replies(1)).toMatchObject([{ status: 201 }])
    await closing
  })

  it('stays where it uses TLS', async () => {
    const files = await certificate(await temporaryFolder())
    const others = await started({ daemons: { httpsd: 'on' }, ssl: { port: '0', ...files } })
    const [, secure = ''] = others.service.urls
    const status = (agent: Agent, path: string) =>
      new Promise<number | undefined>((resolve, reject) => {
        request(`${secure}${path}`, { agent, method: 'PUT', headers: { 'Content-Length': 0 } }, (response) => {
          response.resume().on('end', () => resolve(response.statusCode))
        })
          .on('error', reject)
          .end()
      })
    // Each has one connection. Some of them are the secondary's.
    const clients = Array.from({ length: 8 }, async (_, client) => {
      const agent = new Agent({ keepAlive: true, maxSockets: 1, rejectUnauthorized: false })
      for (let i = 0; i < MANY; i++)
        expect(await status(agent, i === 0 ? `db-${client}` : `db-0`)).toBe(i === 0 ? 201 : 412)
      agent.destroy()
    })
    await Promise.all(clients)
  })
})

describe('slots of connections', { timeout: 120_000 }, () => {
  it('move with them: the limit holds for all nodes together, and none is lost', async () => {
    const limit = 6
    const others = await started({ httpd: { max_connections: String(limit) } })
    const { service: limited, primary, secondary } = others
    for (let round = 0; round < 2; round++) {
      const connections: PlacedConnection[] = []
      for (let i = 0; i < limit; i++) {
        const connection = await PlacedConnection.open(limited.url)
        connections.push(connection)
        await connection.request('PUT', '/db')
        for (let n = 0; n < MANY; n++) await connection.request('PUT', `/db/${round}-${i}-${n}`, {})
        await until(() => connection.holders([primary, secondary]).join() === String(primary))
      }
      const refused = await PlacedConnection.open(limited.url)
      expect(await refused.request('GET', '/')).toMatchObject({ status: 503 })
      const { body } = await connections[0]!.request('GET', '/_node/_local/_prometheus')
      const counted = [...body.matchAll(/^settle_connections(?:{.*})? (\d+)$/gm)].map(([, count]) => Number(count))
      expect(counted.reduce((sum, count) => sum + count, 0)).toBe(limit)
      for (const connection of [refused, ...connections]) connection.close()
      // The server knows of that a moment later.
      await until(async () => {
        const next = await Promise.all(Array.from({ length: limit }, () => PlacedConnection.open(limited.url)))
        const replies = await Promise.all(next.map((each) => each.request('GET', '/').catch(() => undefined)))
        for (const each of next) each.close()
        return replies.every((reply) => reply?.status === 200)
      })
      await until(() => [...connections].every((each) => each.holders([primary, secondary]).length === 0))
    }
  })
})

describe('a connection that is about to move', { timeout: 180_000 }, () => {
  /** Writes until it is on its way to the primary, and what is on the way does not get on. */
  async function stuck(others: Nodes, path: string): Promise<PlacedConnection> {
    const connection = await PlacedConnection.openAt(service.url, others.secondary)
    process.kill(others.supervisor, 'SIGSTOP')
    onTestFinished(() => void process.kill(others.supervisor, 'SIGCONT'))
    for (let i = 0; i < 32; i++) {
      expect(await connection.request('PUT', `${path}-before-${i}`, {})).toMatchObject({ status: 201 })
    }
    return connection
  }

  it('stays where the primary does not get it, and no request is lost', async () => {
    const others = await nodesOf(service)
    const { primary, secondary, supervisor } = others
    const path = place('stuck')
    const connection = await stuck(others, path)
    expect(await connection.request('PUT', `${path}-meanwhile`, {})).toMatchObject({ status: 201 })
    expect(connection.holders([primary, secondary])).toEqual([secondary])
    process.kill(supervisor, 'SIGCONT')
    // What comes too late is closed there, and the connection goes on here.
    await until(() => connection.holders([primary, supervisor]).length === 0)
    expect(await connection.request('PUT', `${path}-after`, {})).toMatchObject({ status: 201 })
    await writeUntilMoved(connection, others, `${path}-later`)
    connection.close()
  })

  it('stays where the primary is killed meanwhile; its requests wait for the next one', async () => {
    const others = await nodesOf(service)
    const { primary, secondary, supervisor } = others
    const path = place('stuck')
    const connection = await stuck(others, path)
    connection.write(requestText('PUT', `${path}-meanwhile`, {}) + requestText('PUT', `${path}-behind`, {}))
    process.kill(primary, 'SIGKILL')
    process.kill(supervisor, 'SIGCONT')
    expect(await connection.replies(2)).toMatchObject([{ status: 201 }, { status: 201 }])
    expect(connection.holders([secondary, supervisor])).toEqual([secondary])
    const next = await nodesOf(service)
    await writeUntilMoved(connection, next, `${path}-later`)
    connection.close()
  })

  it('is carried out once, whenever the primary is killed', async () => {
    await nodesOf(service)
    const path = place('once')
    const acknowledged: string[] = []
    const conflicts: string[] = []
    let isOver = false
    const write = async (client: number) => {
      let connection = await PlacedConnection.open(service.url)
      for (let i = 0; !isOver; i++) {
        const id = `${path.slice(4)}-${client}-${i}`
        const reply = await connection.request('PUT', `/db/${id}`, {}).catch(() => undefined)
        // Each is sent once.
        if (reply?.status === 409) conflicts.push(id)
        if (reply?.status === 201) acknowledged.push(id)
        // So that it moves again and again.
        if (!reply || i % 50 === 49) {
          connection.close()
          connection = await PlacedConnection.open(service.url)
        }
      }
      connection.close()
    }
    const writers = Array.from({ length: 6 }, (_, client) => write(client))
    for (let round = 0; round < 2; round++) {
      const before = acknowledged.length
      await until(() => acknowledged.length > before + 200)
      const pid = service.primaryPid
      if (pid !== undefined) process.kill(pid, 'SIGKILL')
    }
    const before = acknowledged.length
    await until(() => acknowledged.length > before + 200)
    isOver = true
    await Promise.all(writers)
    expect(conflicts).toEqual([])
    const text = await (await fetch(`${service.url}db/_all_docs`)).text()
    const { rows }: { readonly rows: readonly { readonly id: string }[] } = JSON.parse(text)
    const stored = new Set(rows.map(({ id }) => id))
    expect(acknowledged.filter((id) => !stored.has(id))).toEqual([])
  })
})
