import { execFileSync } from 'node:child_process'
import { rmSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { isOfSources, processEntry } from '../../../src/runtime/processes/process-entry.ts'
import { serverCommand } from '../../../src/supervisor/server-command.ts'
import { ServerProcess } from '../../crash/server-process.ts'
import { Client } from '../../support/client.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const ROOT = join(import.meta.dirname, '..', '..', '..')

describe('the bundle of a process', () => {
  it('is what the server and index processes are started with, and works', { timeout: 180_000 }, async () => {
    execFileSync(process.execPath, [join(ROOT, 'scripts/bundle-processes.mjs')], { cwd: ROOT, stdio: 'pipe' })
    expect(processEntry('views/processes/index-process')).toContain('settle-processes')
    expect(serverCommand([]).args.join()).toContain('settle-processes')
    const server = new ServerProcess(await temporaryFolder())
    onTestFinished(() => server.kill())
    const client = new Client((await server.url()) ?? '')
    onTestFinished(() => client.close())
    await client.request('PUT', '/db')
    await client.request('PUT', '/db/a', { body: { n: 3 } })
    await client.request('PUT', '/db/_design/d', { body: { views: { n: { map: 'function (doc) { emit(doc.n) }' } } } })
    const reply = await client.request('GET', '/db/_design/d/_view/n')
    expect(reply.json).toMatchObject({ rows: [{ id: 'a', key: 3 }] })
  })

  it('is not used by a server with options of Node, which may be hooks or a profiler', () => {
    expect(serverCommand([], ['--cpu-prof']).args.join()).toContain('src/server-process.ts')
  })

  it('is not used when a source has changed, is gone, or there is none', async () => {
    const folder = await temporaryFolder()
    const source = join(folder, 'a.ts')
    expect(isOfSources(folder, folder)).toBe(false)
    writeFileSync(source, 'first')
    const { size, mtimeMs } = statSync(source)
    writeFileSync(join(folder, 'sources.json'), JSON.stringify([{ path: 'a.ts', size, mtimeMs }]))
    expect(isOfSources(folder, folder)).toBe(true)
    utimesSync(source, 1, 1)
    expect(isOfSources(folder, folder)).toBe(false)
    writeFileSync(join(folder, 'sources.json'), JSON.stringify([{ path: 'a.ts', size: 9, mtimeMs: 1000 }]))
    expect(isOfSources(folder, folder)).toBe(false)
    writeFileSync(join(folder, 'sources.json'), JSON.stringify([{ path: 'a.ts', size, mtimeMs: 1000 }]))
    expect(isOfSources(folder, folder)).toBe(true)
    rmSync(source)
    expect(isOfSources(folder, folder)).toBe(false)
    writeFileSync(join(folder, 'sources.json'), '{')
    expect(isOfSources(folder, folder)).toBe(false)
  })
})
