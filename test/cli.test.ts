import { chmod, mkdir, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { nodesFor } from '../src/nodes/node-count.ts'
import { availableMemory } from '../src/runtime/memory-budget.ts'
import { SettleCommand } from './support/settle-command.ts'
import { temporaryFolder } from './support/temporary-folder.ts'

const settle = (...args: string[]) => new SettleCommand(args)

describe('the settle command', () => {
  it.each(['SIGINT', 'SIGTERM'] as const)('serves until %s, then ends in order', async (signal) => {
    const dir = await temporaryFolder()
    const { process: child, ended, url } = settle('--port', '0', '--dir', dir)
    expect((await fetch(await url)).status).toBe(200)
    child.kill(signal)
    const { code, out, err } = await ended
    expect([code, err]).toEqual([0, ''])
    expect(out.trim().split('\n')).toHaveLength(1)
    expect(out).toContain(`with its data in ${dir}`)
  })

  it('serves from memory', async () => {
    const { process: child, ended, url } = settle('--port', '0', '--in-memory', '--bind', '::1')
    expect(await url).toMatch(/^http:\/\/\[::1\]:\d+\/$/)
    expect((await fetch(await url)).status).toBe(200)
    child.kill('SIGTERM')
    expect((await ended).code).toBe(0)
  })

  it('takes settings from its flags before those of the environment', async () => {
    const environment = { SETTLE_UUIDS__MAX_COUNT: '3', SETTLE_VENDOR__NAME: 'Mine', SETTLE_HTTPD__PORT: '0' }
    const { url } = new SettleCommand(['--in-memory', '--set', 'uuids/max_count=2', '--set', 'test/a=b=c'], {
      environment,
    })
    const get = async (path: string) => (await fetch(`${await url}_config/${path}`)).json()
    expect(await get('uuids/max_count')).toBe('2')
    expect(await get('vendor/name')).toBe('Mine')
    expect(await get('test/a')).toBe('b=c')
  })

  it('starts as many nodes as suit the machine', async () => {
    const command = new SettleCommand(['--port', '0', '--dir', await temporaryFolder()], {
      prelude: 'unset SETTLE_SERVICE__NODES',
    })
    expect(await (await fetch(`${await command.url}_config/service/nodes`)).json()).toBe('auto')
    await expect.poll(() => command.serverPids()).toHaveLength(nodesFor(availableParallelism(), availableMemory()))
    command.process.kill('SIGTERM')
    expect(await command.ended).toMatchObject({ code: 0, err: '' })
  })

  it('restarts in its own process', async () => {
    const { process: child, ended, url } = settle('--port', '0', '--in-memory')
    const headers = { 'Content-Type': 'application/json' }
    expect((await fetch(`${await url}_restart`, { method: 'POST', headers })).status).toBe(202)
    await expect.poll(async () => (await fetch(await url).catch(() => undefined))?.status).toBe(200)
    child.kill('SIGTERM')
    expect(await ended).toMatchObject({ code: 0, err: '' })
  })

  async function failure(...args: string[]): Promise<string> {
    const { code, out, err } = await settle(...args).ended
    expect(code).toBe(1)
    expect(out).toBe('')
    expect(err.trim().split('\n')).toHaveLength(1)
    return err
  }

  it('says in one line that the port is taken', async () => {
    const server = createServer().listen(0, '127.0.0.1')
    onTestFinished(() => void server.close())
    await new Promise((resolve) => server.once('listening', resolve))
    const address = server.address()
    const port = typeof address === 'object' && address ? String(address.port) : ''
    expect(await failure('--port', port, '--in-memory')).toContain(`Port ${port} of 127.0.0.1 is in use`)
  })

  it('says in one line that the folder is in use', async () => {
    const dir = await temporaryFolder()
    const { url } = settle('--port', '0', '--dir', dir)
    await url
    expect(await failure('--port', '0', '--dir', dir)).toContain('is in use by another process')
  })

  it('says in one line that the folder cannot be written', async () => {
    const folder = await temporaryFolder()
    await writeFile(join(folder, 'file'), '')
    expect(await failure('--port', '0', '--dir', join(folder, 'file'))).toContain('cannot be written')
    if (process.getuid?.() !== 0) {
      await mkdir(join(folder, 'shut'))
      await chmod(join(folder, 'shut'), 0o500)
      expect(await failure('--port', '0', '--dir', join(folder, 'shut'))).toContain('cannot be written')
    }
  })

  it('says in one line that the data are of another format', async () => {
    const dir = await temporaryFolder()
    await writeFile(join(dir, 'format'), 'settle data folder, format 99\n')
    expect(await failure('--port', '0', '--dir', dir)).toContain('has format 99; this release reads formats up to 1')
  })

  it.each([
    [['--port', 'x'], 'x is not a port'],
    [['--port', '70000'], '70000 is not a port'],
    [['--nonsense'], 'nonsense'],
    [['--set', 'nonsense'], 'nonsense is not a setting'],
    [['--nodes', 'many'], 'The setting service/nodes must be a number from 1 to 64, or auto.'],
    [['--nodes', '0'], 'The setting service/nodes must be a number from 1 to 64, or auto.'],
    [['--nodes', 'auto', '--in-memory'], '--nodes needs data on disk'],
    [['--set', 'uuids/algorithm=mine', '--in-memory'], 'uuids/algorithm must be one of'],
    [['--bind', '192.0.2.1', '--in-memory', '--port', '0'], '192.0.2.1 is not an address of this machine'],
  ])('reports the error of %j in one line', async (args, message) => {
    expect(await failure(...args)).toContain(message)
  })

  it('prints its version and its flags', async () => {
    expect((await settle('--version').ended).out).toMatch(/^\d+\.\d+\.\d+\n$/)
    expect((await settle('--help').ended).out).toContain('--in-memory')
  })
})
