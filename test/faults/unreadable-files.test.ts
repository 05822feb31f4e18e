/**
 * A disk that does not give back what it has: reads of one file fail with EIO, or its mapped pages are gone. That file is named
 * in the log, the others continue, and the file is used again when it can be read.
 */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readdir, readFile, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { createService } from '../../src/service.ts'
import { serverCommand } from '../../src/supervisor/server-command.ts'
import { Client } from '../support/client.ts'
import { descendants } from '../support/descendants.ts'
import { SettleCommand } from '../support/settle-command.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const canInject = process.platform === 'linux' && spawnSync('strace', ['-V']).status === 0
const HANG_MS = 300_000

/** A folder with two databases, and the file of the second one. */
async function folderOfTwo(): Promise<{ dir: string; file: string }> {
  const dir = await temporaryFolder()
  const service = await createService({ dir, port: 0 })
  onTestFinished(() => service.close())
  const client = new Client(await service.listen())
  for (const name of ['good', 'bad']) {
    await client.request('PUT', `/${name}`)
    const docs = Array.from({ length: 500 }, (_, i) => ({ _id: `doc-${i}`, text: 'x'.repeat(1000) }))
    expect((await client.request('POST', `/${name}/_bulk_docs`, { body: { docs } })).status).toBe(201)
  }
  await service.close()
  const file = (await readdir(dir)).find((name) => /^bad\.\d+\.mdb$/.test(name)) ?? ''
  return { dir, file: join(dir, file) }
}

describe.runIf(canInject)('a server that cannot read a file', { timeout: HANG_MS }, () => {
  it('reports it, continues with the others, and reads it when it can', async () => {
    const { dir, file } = await folderOfTwo()
    const { args, environment } = serverCommand(['--port', '0', '--dir', dir])
    const injection = ['-e', 'trace=read,pread64,readv,preadv', '-e', 'inject=read,pread64,readv,preadv:error=EIO']
    const strace = ['-f', '-qq', '-o', '/dev/null', '-P', file, ...injection, process.execPath, ...args]
    const child = spawn('strace', strace, {
      stdio: ['ignore', 'pipe', 'inherit'],
      env: { ...environment, UV_USE_IO_URING: '0' },
    })
    onTestFinished(async () => {
      // The server is a child of strace, and does not end with it.
      for (const pid of descendants(child.pid ?? 0)) process.kill(pid, 'SIGKILL')
      if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
    })
    const url = await new Promise<string>((resolve, reject) => {
      let said = ''
      child.once('exit', (code) => reject(new Error(`The server ended with ${code}. ${said}`)))
      child.stdout.setEncoding('utf8').on('data', (text: string) => {
        said += text
        const [found] = /http:\S+/.exec(said) ?? []
        if (found) resolve(found)
      })
    })
    const client = new Client(url)
    onTestFinished(() => client.close())
    const failed = await client.request('GET', '/bad/doc-1')
    expect(failed.status, failed.text).toBeGreaterThanOrEqual(500)
    expect(failed.text).toMatch(/bad\.\d+\.mdb/)
    expect(failed.as<{ error: string }>().error).not.toBe('unknown_error')
    expect((await client.request('GET', '/good/doc-1')).status).toBe(200)
    expect((await client.request('PUT', '/good/new', { body: {} })).status).toBe(201)
    for (const pid of descendants(child.pid ?? 0).slice(0, 1)) process.kill(pid, 'SIGTERM')
    await once(child, 'exit')

    const service = await createService({ dir, port: 0 })
    onTestFinished(() => service.close())
    const after = new Client(await service.listen())
    expect((await after.request('GET', '/bad/doc-1')).status).toBe(200)
  })
})

describe.runIf(process.platform === 'linux')('a server whose mapped pages are gone', { timeout: HANG_MS }, () => {
  it('crashes, is restarted, names the file and continues with the others', async () => {
    const { dir, file } = await folderOfTwo()
    const command = new SettleCommand(['--port', '0', '--dir', dir])
    const client = new Client(await command.url)
    onTestFinished(() => client.close())
    expect((await client.request('GET', '/bad')).status).toBe(200)
    const whole = await readFile(file)
    // As far as a process can see, pages of a mapped file that end are pages that cannot be read: SIGBUS.
    await truncate(file, 3 * 8192)
    const answer = () => client.request('GET', '/bad/_all_docs?include_docs=true').catch(() => undefined)
    await expect.poll(async () => (await answer())?.status, { timeout: HANG_MS }).toBe(500)
    expect((await answer())?.text).toMatch(/bad\.\d+\.mdb is damaged/)
    expect(command.err).toMatch(/SIGBUS/)
    expect((await client.request('GET', '/good/doc-1')).status).toBe(200)
    expect((await client.request('PUT', '/good/new', { body: {} })).status).toBe(201)
    command.process.kill('SIGTERM')
    await command.ended

    await writeFile(file, whole)
    const service = await createService({ dir, port: 0 })
    onTestFinished(() => service.close())
    const after = new Client(await service.listen())
    const { rows } = (await after.request('GET', '/bad/_all_docs')).as<{ rows: unknown[] }>()
    expect(rows).toHaveLength(500)
  })
})
