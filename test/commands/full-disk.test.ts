/** Backups to a disk without space, by a limit on the size of files, which counts as one. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { open, readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { startService } from '../support/service.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { contentsOf } from './compare-databases.ts'
import { runSettle } from './run-settle.ts'

const CLI = join(import.meta.dirname, '../../src/cli.ts')

/** `settle backup` in a process that cannot write files of more than so many bytes. */
async function limitedBackup(
  bytes: number,
  args: readonly string[],
  output: number | 'ignore' = 'ignore',
): Promise<{ code: number | null; err: string }> {
  const child: ChildProcess = spawn(
    'prlimit',
    [`--fsize=${bytes}:`, process.execPath, CLI, 'backup', ...args],
    // Else its cache of compiled code would have files that are cut off.
    { stdio: ['ignore', output, 'pipe'], env: { ...process.env, NODE_DISABLE_COMPILE_CACHE: '1' } },
  )
  onTestFinished(() => void child.kill('SIGKILL'))
  let err = ''
  child.stderr?.on('data', (piece: Buffer) => {
    err += piece
  })
  const [code] = await once(child, 'close')
  return { code, err }
}

async function filledServer(): Promise<string> {
  const { url } = await startService()
  const headers = { 'Content-Type': 'application/json' }
  for (const [name, count] of [
    ['large', 1000],
    ['small', 10],
  ] as const) {
    await fetch(`${url}${name}`, { method: 'PUT' })
    const docs = Array.from({ length: count }, (_, i) => ({ _id: `doc-${i}`, text: 'x'.repeat(2000) }))
    const reply = await fetch(`${url}${name}/_bulk_docs`, { method: 'POST', headers, body: JSON.stringify({ docs }) })
    expect(reply.status).toBe(201)
  }
  return url
}

describe.runIf(process.platform === 'linux')('settle backup to a full disk', () => {
  it('says so, keeps what it has, and continues when there is space', async () => {
    const url = await filledServer()
    const to = join(await temporaryFolder(), 'backups')
    const reason = `${to} cannot be written: EFBIG`
    const first = await limitedBackup(1_500_000, ['--to', to, '--url', url])
    expect(first).toEqual({ code: 2, err: expect.stringContaining(`large: ${reason}`) })
    expect(first.err).toContain('1 database is not backed up: run the command again.')
    // What is complete can be restored, and what is not is named.
    expect(await runSettle(['backup', 'verify', to])).toMatchObject({
      code: 0,
      err: expect.stringContaining('large.1: not complete yet'),
    })
    expect((await runSettle(['backup', 'list', to])).out.toString()).toMatch(/^large\.1\tnot complete yet/m)
    const target = await startService()
    const restore = (name: string) => runSettle(['restore', '--from', to, '--url', target.url, '--db', name])
    expect(await restore('large')).toMatchObject({ code: 1, err: expect.stringContaining('no complete copy of large') })
    expect(await restore('small')).toMatchObject({ code: 0 })

    // Without any space, nothing changes.
    const none = await limitedBackup(0, ['--to', to, '--url', url])
    expect(none).toEqual({ code: 2, err: expect.stringContaining(reason) })

    const last = await runSettle(['backup', '--to', to, '--url', url, '--verify'])
    expect(last).toMatchObject({ code: 0, err: expect.stringMatching(/large: continues after 1\.\d MB/) })
    expect(await restore('large')).toMatchObject({ code: 0 })
    for (const name of ['large', 'small'])
      expect(await contentsOf(target.url, name)).toEqual(await contentsOf(url, name))
    const left = (await readdir(to, { recursive: true })).filter((file) => /\.(?:partial|new)$/.test(file))
    expect(left).toEqual([])
  })

  it('as a stream ends with a message, and what came of it is refused', async () => {
    const url = await filledServer()
    const file = join(await temporaryFolder(), 'stream')
    const handle = await open(file, 'w')
    const outcome = await limitedBackup(1_000_000, ['--to', '-', '--url', url], handle.fd)
    await handle.close()
    expect(outcome).toEqual({ code: 2, err: expect.stringMatching(/Standard output cannot be written: EFBIG/) })
    const target = await startService()
    const input = await readFile(file)
    expect(await runSettle(['backup', 'verify', '-'], { input })).toMatchObject({ code: 3 })
    expect(await runSettle(['restore', '--from', '-', '--url', target.url], { input })).toMatchObject({ code: 3 })
  })
})
