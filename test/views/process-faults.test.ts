import { readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { ServerProcess } from '../crash/server-process.ts'
import { Client } from '../support/client.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const SUMS = { views: { n: { map: 'function (doc) { emit(doc.n % 10, doc.n) }', reduce: '_sum' } } }
const ENDLESS = { views: { n: { map: 'function (doc) { for (;;) {} }' } } }
const VIEW = '/db/_design/test/_view/n'
const DOCUMENTS = 2000
const SUM = (DOCUMENTS * (DOCUMENTS - 1)) / 2

describe.runIf(process.platform === 'linux')('an index process', { timeout: 180_000 }, () => {
  it('costs a run when it is killed, and waiting readers do not notice', async () => {
    const { server, client, folder } = await start()
    await fill(client, SUMS)
    const query = client.request('GET', VIEW)
    const pid = await processOf(server)
    process.kill(pid, 'SIGKILL')
    const reply = await query
    expect([reply.status, reply.text]).toEqual([200, `{"rows":[\r\n{"key":null,"value":${SUM}}\r\n]}\n`])
    await client.request('PUT', '/db/more', { body: { n: 1 } })
    expect((await client.request('GET', VIEW)).text).toContain(`"value":${SUM + 1}`)
    await expect.poll(() => readFileSync(join(folder, 'settle.log'), 'utf8')).toMatch(/index process ended.*SIGKILL/)
  })

  it('takes its sandbox processes with it when it is killed, also those in an endless function', async () => {
    const { server, client } = await start()
    await fill(client, ENDLESS)
    client.request('GET', VIEW).catch(() => {})
    const pid = await processOf(server)
    await expect.poll(() => server.childrenCalled('settle-sandbox').length).toBeGreaterThan(0)
    const sandboxes = server.childrenCalled('settle-sandbox')
    process.kill(pid, 'SIGKILL')
    await expect.poll(() => sandboxes.filter(isAlive)).toEqual([])
  })

  it('ends with its sandbox processes when the server is killed', async () => {
    const { server, client } = await start()
    await fill(client, ENDLESS)
    client.request('GET', VIEW).catch(() => {})
    const pid = await processOf(server)
    await expect.poll(() => server.childrenCalled('settle-sandbox').length).toBeGreaterThan(0)
    const all = [pid, ...server.childrenCalled('settle-sandbox')]
    await server.kill()
    await expect.poll(() => all.filter(isAlive)).toEqual([])
  })

  it('that is stopped ends with the server all the same', async () => {
    const { server, client } = await start()
    await fill(client, SUMS)
    await client.request('GET', VIEW)
    const pid = await processOf(server)
    process.kill(pid, 'SIGSTOP')
    await server.kill()
    await expect.poll(() => isAlive(pid)).toBe(false)
  })

  it('is killed by the next server when it outlives its own', async () => {
    const { server, client, folder } = await start()
    await fill(client, SUMS)
    await client.request('GET', VIEW)
    const pid = await processOf(server)
    // Without the reaper it stays when the server is gone.
    for (const reaper of server.childrenCalled('/bin/sh')) process.kill(reaper, 'SIGKILL')
    process.kill(pid, 'SIGSTOP')
    await server.kill()
    expect(isAlive(pid)).toBe(true)
    const next = new ServerProcess(folder)
    onTestFinished(() => next.kill())
    const after = new Client((await next.url()) ?? '')
    onTestFinished(() => after.close())
    expect(isAlive(pid)).toBe(false)
    expect((await after.request('GET', VIEW)).text).toContain(`"value":${SUM}`)
    expect(readFileSync(join(folder, 'settle.log'), 'utf8')).toContain('of an earlier server was still running')
  })

  it('that hangs keeps neither a database from being deleted nor the server from ending', async () => {
    const { server, client, folder } = await start('[view_building]\nstop_timeout = 500\n')
    await fill(client, SUMS)
    await client.request('GET', VIEW)
    await client.request('PUT', '/db/more', { body: { n: 1 } })
    process.kill(await processOf(server), 'SIGSTOP')
    const query = client.request('GET', VIEW)
    expect((await client.request('DELETE', '/db')).status).toBe(200)
    expect((await query).status).toBe(404)
    expect(server.childrenCalled('settle-index')).toEqual([])
    await fill(client, SUMS)
    client.request('GET', VIEW).catch(() => {})
    process.kill(await processOf(server), 'SIGSTOP')
    await server.stop()
    expect(readFileSync(join(folder, 'settle.log'), 'utf8')).toContain('An index process was killed.')
  })

  it('ends when it had nothing to do for as long as the settings say', async () => {
    const { server, client } = await start('[view_building]\nidle_timeout = 1000\n')
    await fill(client, SUMS)
    await client.request('GET', VIEW)
    await expect.poll(() => server.childrenCalled('settle-index'), { timeout: 20_000 }).toEqual([])
    expect((await client.request('GET', VIEW)).text).toContain(`"value":${SUM}`)
  })

  it('has no descriptor of a file of the server', async () => {
    const { server, client, folder } = await start()
    await client.request('PUT', '/other')
    await client.request('PUT', '/other/doc', { body: {} })
    await fill(client, SUMS)
    await client.request('GET', VIEW)
    const files = server.filesOf(await processOf(server)).filter((name) => name.startsWith(folder))
    expect(files.filter((name) => name.includes('other'))).toEqual([])
  })
})

describe.runIf(process.platform === 'linux')('a function that does not end', () => {
  it('ends with the server when that is killed', async () => {
    const { server, client } = await start()
    await client.request('PUT', '/db')
    await client.request('PUT', '/db/_design/test', { body: { shows: { endless: 'function () { for (;;) {} }' } } })
    client.request('GET', '/db/_design/test/_show/endless').catch(() => {})
    await expect.poll(() => server.childrenCalled('settle-sandbox').filter(isBusy)).toHaveLength(1)
    const sandboxes = server.childrenCalled('settle-sandbox')
    await server.kill()
    await expect.poll(() => sandboxes.filter(isAlive)).toEqual([])
  })
})

async function start(settings = '') {
  const folder = await temporaryFolder()
  await writeFile(join(folder, 'local.ini'), `[service]\nos_process_timeout = 120000\n${settings}`)
  const server = new ServerProcess(folder)
  onTestFinished(() => server.kill())
  const client = new Client((await server.url()) ?? '')
  onTestFinished(() => client.close())
  return { folder, server, client }
}

async function fill(client: Client, design: object): Promise<void> {
  await client.request('PUT', '/db')
  const docs = Array.from({ length: DOCUMENTS }, (_, n) => ({ _id: `doc${n}`, n }))
  expect((await client.request('POST', '/db/_bulk_docs', { body: { docs } })).status).toBe(201)
  expect((await client.request('PUT', '/db/_design/test', { body: design })).status).toBe(201)
}

/** The one that there is, when there is one. */
async function processOf(server: ServerProcess): Promise<number> {
  await expect.poll(() => server.childrenCalled('settle-index').length).toBeGreaterThan(0)
  return server.childrenCalled('settle-index')[0] ?? 0
}

/** A process that was never waited for is not. */
function isAlive(pid: number): boolean {
  try {
    return !/^\d+ \(.*\) [ZX]/.test(readFileSync(`/proc/${pid}/stat`, 'utf8'))
  } catch {
    return false
  }
}

/** Whether it has had a second of a processor. */
function isBusy(pid: number): boolean {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? []
  return Number(fields[11]) > 100
}
