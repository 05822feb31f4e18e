/**
 * What the system refuses to a running server: room on the disk, descriptors, a folder. It says so with a status of its
 * own, continues with everything else, and recovers when the cause is gone.
 */
import { spawnSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { Reply } from '../support/client.ts'
import { until } from '../support/until.ts'
import { LimitedServer } from './limited-server.ts'

const canLimit = process.platform === 'linux' && spawnSync('prlimit', ['--version']).status === 0

const HANG_MS = 300_000

/** The server has a cause, and says it. */
function expectFailure(reply: Reply): void {
  expect(reply.status, reply.text).toBeGreaterThanOrEqual(500)
  const { error, reason } = reply.as<{ error: string; reason: string }>()
  expect([error, reason]).not.toContain('')
  expect(error, reply.text).not.toBe('unknown_error')
}

const VIEW = { views: { v: { map: 'function (doc) { emit(doc._id, doc.text) }' } } }

/** Throws where the server does not do what it must. */
async function fillTheDisk(server: LimitedServer): Promise<void> {
  const { client } = server
  const db = await client.database()
  await db.save('_design/d', VIEW)
  await db.save('first', { text: 'x' })
  expect((await db.get('_design/d/_view/v')).status).toBe(200)

  const file = readdirSync(server.folder).find((name) => name.startsWith(db.name) && name.endsWith('.mdb'))!
  server.limitFileSize((await stat(join(server.folder, file))).size + 300_000)
  const stored = new Set(['_design/d', 'first'])
  const refused: Reply[] = []
  for (let i = 0; refused.length < 5; i++) {
    expect(i).toBeLessThan(100)
    const reply = await db.put(`doc${i}`, { text: 'x'.repeat(20_000) })
    if (reply.status === 201) stored.add(`doc${i}`)
    else refused.push(reply)
  }
  refused.forEach(expectFailure)
  expectFailure(await db.put('attached/file', Buffer.alloc(1_000_000, 1), { 'Content-Type': 'image/png' }))
  expectFailure(
    await db.post('_bulk_docs', {
      docs: Array.from({ length: 50 }, (_, i) => ({ _id: `b${i}`, text: 'x'.repeat(20_000) })),
    }),
  )
  const ids = async () => (await db.get('_all_docs')).as<{ rows: { id: string }[] }>().rows.map(({ id }) => id)
  expect((await ids()).sort()).toEqual([...stored].sort())
  expect((await db.get('first')).status).toBe(200)
  expect(server.isRunning).toBe(true)

  server.limitFileSize('unlimited')
  expect((await db.put('attached/file', Buffer.alloc(1_000_000, 1), { 'Content-Type': 'image/png' })).status).toBe(201)
  expect((await db.get('attached/file')).body.equals(Buffer.alloc(1_000_000, 1))).toBe(true)
  await db.save('last', { text: 'y' })
  expect((await ids()).sort()).toEqual([...stored, 'attached', 'last'].sort())
  await db.compact()
  const rows = (await db.get('_design/d/_view/v')).as<{ rows: { id: string }[] }>().rows
  expect(rows.map(({ id }) => id).sort()).toEqual(
    [...stored, 'attached', 'last'].filter((id) => id !== '_design/d').sort(),
  )
}

/** Throws where the server does not do what it must. */
async function takeDescriptors(server: LimitedServer): Promise<void> {
  const { client } = server
  const names: string[] = []
  // More than are kept open.
  for (let i = 0; i < 12; i++) names.push((await client.databaseWith('doc')).name)
  const connected = await client.open()
  connected.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n')
  await connected.receives('200 OK')

  server.limitDescriptors(0)
  for (const name of names) connected.write(`GET /${name}/doc HTTP/1.1\r\nHost: x\r\n\r\n`)
  await until(() => connected.statuses.length > names.length)
  for (const status of connected.statuses) expect(['200', '503']).toContain(status)
  connected.write('PUT /another HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n')
  await until(() => connected.statuses.length > names.length + 1)
  expect(connected.statuses.at(-1)).toBe('503')
  // Nobody takes these now; they wait, or are closed.
  const waiting = await Promise.all(Array.from({ length: 5 }, () => client.open()))
  for (const each of waiting) each.write('GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n')
  expect(server.isRunning).toBe(true)

  server.limitDescriptors('as before')
  // The first ones may still be cut off.
  await until(async () => (await client.request('PUT', '/another').catch(() => undefined)) !== undefined)
  expect((await client.request('PUT', '/another')).status).toBe(412)
  for (const name of names) expect((await client.request('GET', `/${name}/doc`)).status).toBe(200)
  await Promise.all(waiting.map((each) => each.closed()))
  expect(server.isRunning).toBe(true)
  connected.end()
}

/** Throws where the server does not do what it must. */
async function turnReadOnly(server: LimitedServer): Promise<void> {
  const { client } = server
  const db = await client.database()
  await db.save('_design/d', VIEW)
  await db.save('doc', { text: 'x' })
  await server.makeFolder('read-only')

  expectFailure(await client.request('PUT', '/other'))
  expect((await client.request('GET', '/other')).status).toBe(404)
  expectFailure(await client.request('PUT', '/_config/fault/a', { body: '"b"' }))
  expect((await client.request('GET', '/_config/fault/a')).status).toBe(404)
  expect((await db.get('doc')).status).toBe(200)
  const written = await db.put('more', {})
  if (written.status !== 201) expectFailure(written)
  await db.compact()
  const deleted = await client.request('DELETE', `/${db.name}`)
  expectFailure(deleted)
  expect((await db.get('doc')).status).toBe(200)

  await server.makeFolder('writable')
  expect((await client.request('PUT', '/other')).status).toBe(201)
  expect((await client.request('PUT', '/_config/fault/a', { body: '"b"' })).status).toBe(200)
  await db.compact()
  expect((await db.get('_design/d/_view/v')).status).toBe(200)
  expect((await client.request('DELETE', `/${db.name}`)).status).toBe(200)
  expect((await db.get('doc')).status).toBe(404)
}

describe.runIf(canLimit)('a server whose disk is full', { timeout: HANG_MS }, () => {
  it('refuses what it cannot store, keeps the rest, and continues when there is space', async () => {
    await fillTheDisk(await LimitedServer.start())
  })

  it('is found out when it loses a failure', async () => {
    const server = await LimitedServer.start('the same user', 'a lost failure')
    await expect(fillTheDisk(server)).rejects.toThrow(/expected/)
  })

  it('has no room for a database or a compaction, and says so', async () => {
    const server = await LimitedServer.start()
    const db = await server.client.database()
    for (let i = 0; i < 10; i++) await db.save(`doc${i}`, { text: 'x'.repeat(20_000) })
    server.limitFileSize(4096)
    expectFailure(await server.client.request('PUT', '/other'))
    expect((await server.client.request('GET', '/other')).status).toBe(404)
    await db.compact()
    expect((await db.get('doc9')).status).toBe(200)
    server.limitFileSize('unlimited')
    expect((await server.client.request('PUT', '/other')).status).toBe(201)
    await db.compact()
    expect((await db.info()).doc_count).toBe(10)
  })
})

describe.runIf(canLimit)('a server without descriptors', { timeout: HANG_MS }, () => {
  it('answers who is connected, refuses to open more, and takes connections again later', async () => {
    await takeDescriptors(await LimitedServer.start())
  })

  it('is found out when it loses the cause', async () => {
    const server = await LimitedServer.start('the same user', 'a lost cause')
    await expect(takeDescriptors(server)).rejects.toThrow(/expected/)
  })
})

describe.runIf(canLimit)('a server whose folder turns read-only', { timeout: HANG_MS }, () => {
  it('writes nothing, reports it, keeps reading, and continues when it may write', async () => {
    await turnReadOnly(await LimitedServer.start('unprivileged'))
  })

  it('is found out when it loses a refusal', async () => {
    const server = await LimitedServer.start('unprivileged', 'a lost refusal')
    await expect(turnReadOnly(server)).rejects.toThrow(/expected/)
  })
})
