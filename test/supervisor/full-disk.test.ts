import { execFileSync } from 'node:child_process'
import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { descendantsCalled } from '../support/descendants.ts'
import { SettleCommand } from '../support/settle-command.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const DESIGN = { views: { v: { map: 'function (doc) { emit(doc.a) }' } } }

/** No file may grow, so nothing can be written; reads continue. */
const FULL = { prelude: 'ulimit -f 0' }

it.skipIf(process.platform === 'win32').each([
  ['as it was left', []],
  [
    'without the files that the server writes at its start',
    ['settings.ini', 'settle.log', 'lease', 'lock', 'view_indexes/tenants'],
  ],
])('a full disk does not keep the server from starting to read: a folder %s', async (_, missing) => {
  const dir = await temporaryFolder()
  const args = ['--port', '0', '--dir', dir]
  const before = new SettleCommand(args)
  const firstUrl = await before.url
  const put = (url: string, body: unknown) => fetch(url, { method: 'PUT', body: JSON.stringify(body) })
  await put(`${firstUrl}db`, undefined)
  await put(`${firstUrl}db/doc`, { a: 1 })
  await put(`${firstUrl}db/_design/d`, DESIGN)
  expect((await fetch(`${firstUrl}db/_design/d/_view/v`)).status).toBe(200)
  before.process.kill('SIGTERM')
  expect((await before.ended).code).toBe(0)
  for (const file of missing) await rm(join(dir, file), { force: true })
  // Its hash cannot be stored.
  await writeFile(join(dir, 'local.ini'), '[admins]\nroot = secret\n')

  const full = new SettleCommand(args, FULL)
  const url = await full.url
  const headers = { Authorization: `Basic ${btoa('root:secret')}` }
  const get = async (path: string) => (await fetch(`${url}${path}`, { headers })).json()
  expect(await get('db/doc')).toMatchObject({ a: 1 })
  expect(await get('db/_design/d/_view/v')).toMatchObject({ rows: [{ id: 'doc', key: 1 }] })
  expect(await get('_config/service/uuid')).toMatch(/^[0-9a-f]{32}$/)
  const refused = await fetch(`${url}db/other`, { method: 'PUT', body: '{}', headers })
  expect([refused.status, await refused.text()]).toEqual([500, expect.stringContaining('"error":"commit_failed"')])
  expect(full.err).toContain('Settings could not be stored; they are in effect until the process ends.')
  expect(full.err).toContain('The URI file was not written.')
  full.process.kill('SIGTERM')
  expect((await full.ended).code).toBe(0)
})

it.skipIf(process.platform !== 'linux')('neither server nor index processes fall when files cannot grow', async () => {
  const command = new SettleCommand(['--port', '0', '--dir', await temporaryFolder()], LIMITED)
  const url = await command.url
  const server = await command.serverPid()
  const put = (path: string, body: unknown) => fetch(`${url}${path}`, { method: 'PUT', body: JSON.stringify(body) })
  const rows = async () => {
    const reply = await fetch(`${url}db/_design/d/_view/v?limit=1`)
    const { total_rows: total, error }: Reply = JSON.parse(await reply.text())
    return total ?? error
  }
  await put('db', undefined)
  // The index needs several times the room of the documents.
  await put('db/_design/d', {
    views: { v: { map: `function (doc) { for (var i = 0; i < 8; i++) emit(i, doc.text) }` } },
  })
  let written = 0
  while ((await put(`db/${written}`, { text: 'x'.repeat(8000) })).status === 201) {
    if (++written % 30 === 0) await rows()
  }
  expect(written).toBeGreaterThan(10)
  for (let more = 0; more < 3; more++) {
    expect((await put(`db/more${more}`, { text: 'x'.repeat(8000) })).status).toBe(500)
    expect(await rows()).toEqual(expect.any(String))
  }
  const indexProcesses = descendantsCalled(server, 'settle-index')
  expect(await command.serverPid()).toBe(server)
  for (const pid of [server, ...indexProcesses]) execFileSync('prlimit', ['--pid', String(pid), '--fsize=unlimited:'])
  expect((await put('db/last', { text: '' })).status).toBe(201)
  expect(await rows()).toBe(8 * (written + 1))
  expect(await command.serverPid()).toBe(server)
  expect(command.err).not.toMatch(/SIG[A-Z]+/)
})

/** A megabyte a file. */
const LIMITED = { prelude: 'ulimit -S -f 2048' }

interface Reply {
  readonly total_rows?: number
  readonly error?: string
}
