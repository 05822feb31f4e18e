/** A command that opens files of a running server: commits are paused meanwhile. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { CallFailedError, Channel } from '../../src/cluster/channel.ts'
import { OpeningClient } from '../../src/cluster/opening-socket.ts'
import type { Log } from '../../src/runtime/log/log.ts'
import { createService } from '../../src/service.ts'
import { listStores } from '../../src/storage/files/store-listing.ts'
import { startSettle } from '../commands/run-settle.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const LIMIT = { timeout: 120_000 }

async function started(dir: string, openMs = 120_000) {
  const reports = { onError: (_message: string) => {} }
  const ignore = () => {}
  const log: Log = { debug: ignore, info: ignore, warn: ignore, error: (message) => reports.onError(message) }
  const settings = { lmdb: { open_timeout: String(openMs) } }
  const service = await createService({ dir, port: 0, log, settings })
  onTestFinished(() => service.close())
  const url = await service.listen()
  const put = async (path: string) => {
    const reply = await fetch(`${url}${path}`, {
      method: 'PUT',
      headers: { 'Content-Type': 'application/json' },
      body: '{}',
    })
    expect(reply.status).toBe(201)
    await reply.text()
  }
  await put('db')
  await put('db/first')
  return { put, reports }
}

function command(dir: string): ChildProcess {
  const child = spawn(process.execPath, [join(import.meta.dirname, 'opening-command.ts'), dir, 'db'], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  onTestFinished(() => {
    child.kill('SIGKILL')
  })
  return child
}

async function said(child: ChildProcess): Promise<string> {
  const [text] = await once(child.stdout!, 'data')
  return String(text).trim()
}

it('a commit waits while a command opens the database', LIMIT, async () => {
  const dir = await temporaryFolder()
  const { put } = await started(dir)
  const child = command(dir)
  expect(await said(child)).toBe('holds')
  let isWritten = false
  const written = put('db/second').then(() => {
    isWritten = true
  })
  await put('other')
  expect(isWritten).toBe(false)
  const opened = said(child)
  child.stdin?.write('\n')
  expect(await opened).toBe('opened')
  await written
})

it('a command that is stopped while it opens a database is killed before commits go on', LIMIT, async () => {
  const dir = await temporaryFolder()
  const { put, reports } = await started(dir, 500)
  let isWritten = false
  const killed = new Promise<[string, boolean]>((resolve) => {
    reports.onError = (message) => resolve([message, isWritten])
  })
  const child = command(dir)
  const ended = once(child, 'exit')
  expect(await said(child)).toBe('holds')
  child.kill('SIGSTOP')
  const written = put('db/second').then(() => {
    isWritten = true
  })
  expect(await killed).toEqual(['A command did not open a file in time. It was killed.', false])
  expect(await ended).toEqual([null, 'SIGKILL'])
  await written
})

it('a command that dies while it opens a database holds nobody up', LIMIT, async () => {
  const dir = await temporaryFolder()
  const { put } = await started(dir)
  const child = command(dir)
  await said(child)
  const written = put('db/second')
  child.kill('SIGKILL')
  await written
})

it('reports stores that have another file, or are gone', async () => {
  const dir = await temporaryFolder()
  await started(dir)
  const client = new OpeningClient(dir)
  onTestFinished(() => client.close())
  const open = () => expect.unreachable()
  expect(await client.open('databases', { name: 'db', path: join(dir, 'db.99.mdb') }, open)).toBe('moved')
  expect(await client.open('databases', { name: 'none', path: join(dir, 'none.1.mdb') }, open)).toBe('gone')
  expect(await client.open('indexes', { name: 'db', path: join(dir, 'db.1.mdb') }, open)).toBe('gone')
})

it('can be connected to by the user of the server only', async () => {
  const dir = await temporaryFolder()
  await started(dir)
  expect((await stat(join(dir, '.servers', 'opening.sock'))).mode & 0o777).toBe(0o600)
})

it('refuses a process that it could not kill', async () => {
  const dir = await temporaryFolder()
  await started(dir)
  const client = new OpeningClient(dir)
  onTestFinished(() => client.close())
  const [place] = (await listStores(dir)).filter(({ name }) => name === 'db')
  const call = Channel.prototype.call
  onTestFinished(() => {
    Channel.prototype.call = call
  })
  // As in another container, where the same number is another process.
  Channel.prototype.call = function (message, options) {
    const altered = message instanceof Object && 'identity' in message ? { ...message, identity: 'other' } : message
    return call.call(this, altered, options)
  }
  await expect(client.open('databases', place!, () => expect.unreachable())).rejects.toThrow(CallFailedError)
})

it('has its socket elsewhere where the path of the folder is too long', LIMIT, async () => {
  const dir = join(await temporaryFolder(), 'a-long-name'.repeat(10))
  await mkdir(dir)
  await started(dir)
  expect(await startSettle(['check', '--dir', dir]).ended).toMatchObject({
    code: 0,
    err: expect.stringMatching(/nothing is wrong/),
  })
})
