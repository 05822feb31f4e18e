import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { Agent, request } from 'node:http'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it, onTestFinished } from 'vitest'
import { LineLog } from '../src/runtime/log/log.ts'
import { createService } from '../src/service.ts'
import { Client } from './support/client.ts'
import { startService } from './support/service.ts'
import { temporaryFolder } from './support/temporary-folder.ts'

describe('createService', () => {
  it('gives a server that answers at its url until it is closed', async () => {
    const service = await createService({ inMemory: true, port: 0 })
    expect(() => service.url).toThrow('not listen')
    expect(await service.listen()).toBe(service.url)
    expect(service.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/$/)
    expect((await fetch(service.url)).status).toBe(200)
    await service.close()
    await service.close()
    await expect(fetch(service.url)).rejects.toThrow()
  })

  it('allows many in one process, each with its own data', async () => {
    const services = await Promise.all(Array.from({ length: 5 }, (_, i) => startService({ inMemory: i % 2 === 0 })))
    const answers = await Promise.all(services.map(async ({ url }) => (await fetch(url)).text()))
    expect(new Set(answers).size).toBe(5)
  })

  it('leaves nothing behind when it is in memory', async () => {
    const folder = await temporaryFolder()
    await startService({ inMemory: true, dir: folder })
    expect(await readdir(folder)).toEqual([])
  })

  it('takes settings that win over the defaults, under either name of a section', async () => {
    const { url } = await startService({
      inMemory: true,
      settings: { uuids: { max_count: '2' }, couchdb: { uuid: 'mine' } },
    })
    expect((await fetch(`${url}_uuids?count=3`)).status).toBe(403)
    expect(await (await fetch(url)).json()).toMatchObject({ uuid: 'mine' })
  })

  it('refuses a folder that another service uses, and takes it when that one is closed', async () => {
    const dir = await temporaryFolder()
    const first = await startService({ dir })
    await expect(createService({ dir, port: 0 })).rejects.toThrow(
      `The data folder ${dir} is in use by another process.`,
    )
    await first.close()
    await startService({ dir })
  })

  it('is configured by files in its folder, variables of the environment and settings, each winning over the last', async () => {
    const dir = await temporaryFolder()
    await writeFile(join(dir, 'local.ini'), '[test]\na = file\nb = file\nc = file\n[admins]\n; ann = secret\n')
    const service = await startService({
      dir,
      environment: { SETTLE_TEST__B: 'environment', SETTLE_TEST__C: 'environment' },
      settings: { test: { c: 'flag' } },
    })
    expect(await (await fetch(`${service.url}_config/test`)).json()).toEqual({
      a: 'file',
      b: 'environment',
      c: 'flag',
    })
  })

  it('does not start with settings that it could not work with', async () => {
    const dir = await temporaryFolder()
    await writeFile(join(dir, 'local.ini'), '[uuids]\nalgorithm = mine\n')
    await expect(createService({ dir, port: 0 })).rejects.toThrow('The setting uuids/algorithm must be one of')
    await expect(createService({ inMemory: true, bind: 'somewhere' })).rejects.toThrow('must be an IP address')
    await writeFile(join(dir, 'local.ini'), '')
    await startService({ dir })
  })

  it('hashes the password of an administrator in the file of the operator', async () => {
    const dir = await temporaryFolder()
    await writeFile(join(dir, 'local.ini'), '[admins]\nann = secret ; hers\n')
    await startService({ dir })
    expect(await readFile(join(dir, 'local.ini'), 'utf8')).toMatch(
      /^\[admins\]\nann = -hashed-[0-9a-f]{40},[0-9a-f]{32} ; hers\n$/,
    )
  })

  it('removes what a crash left beside its settings', async () => {
    const dir = await temporaryFolder()
    await mkdir(join(dir, 'local.d'))
    const left = ['settings.ini.new', 'local.ini.new', 'local.d/a.ini.new', '.health']
    const kept = ['notes.new', 'local.d/a.ini', 'local.d/b.new']
    for (const name of [...left, ...kept]) await writeFile(join(dir, name), '')
    await startService({ dir })
    const found = await readdir(dir, { recursive: true })
    expect([...left, ...kept].filter((name) => found.includes(name))).toEqual(kept)
  })

  it('writes its address into a file while it listens, but never over a file with other content', async () => {
    const dir = await temporaryFolder()
    const first = await startService({ dir })
    expect(await readFile(join(dir, 'settle.uri'), 'utf8')).toBe(`${first.url}\n`)
    await first.close()
    expect(await readdir(dir)).not.toContain('settle.uri')
    const precious = join(dir, 'precious')
    await writeFile(precious, 'precious')
    const second = await startService({ dir, settings: { service: { uri_file: precious } } })
    await second.close()
    expect(await readFile(precious, 'utf8')).toBe('precious')
  })

  it('does not wait for clients that only keep their connection', async () => {
    const service = await startService({ inMemory: true })
    const agent = new Agent({ keepAlive: true })
    onTestFinished(() => agent.destroy())
    await new Promise((resolve, reject) => {
      request(service.url, { agent }, (response) => response.resume().on('end', resolve))
        .on('error', reject)
        .end()
    })
    const begun = performance.now()
    await service.close()
    // Ten seconds are for those that have a request under way.
    expect(performance.now() - begun).toBeLessThan(9000)
  })

  it('answers before it has read a body that it does not want', async () => {
    const service = await startService({ inMemory: true })
    const connection = await new Promise<string | undefined>((resolve, reject) => {
      const pending = request(`${service.url}_uuids`, { method: 'POST', headers: { 'Content-Length': '2' } })
      pending.on('response', (response) => {
        response.resume()
        resolve(response.headers.connection)
      })
      pending.on('error', reject)
      pending.flushHeaders()
    })
    expect(connection).toBe('close')
  })
})

it('logs requests that it cut off at its end as such, and not as failures', async () => {
  const lines: string[] = []
  const write = (line: string) => {
    lines.push(line)
    return true
  }
  const log = new LineLog('info', { write }, { dated: false })
  const program = fileURLToPath(new URL('functions/support/query-server.mjs', import.meta.url))
  const settings = {
    service: { os_process_timeout: '600000' },
    query_servers: { node: `"${process.execPath}" "${program}"` },
  }
  const service = await startService({ log, settings })
  const database = await new Client(service.url).database()
  // It waits for ever, and leaves the processor to others.
  const endless = 'function () { log("begun"); Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0) }'
  await database.save('_design/d', { language: 'node', shows: { endless } })
  const reply = database.get('_design/d/_show/endless').then(
    () => 'answered',
    () => 'cut off',
  )
  await expect.poll(() => lines.some((line) => line.includes('begun'))).toBe(true)
  await service.close()
  expect(await reply).toBe('cut off')
  const line = lines.find((each) => each.includes('_show/endless'))
  expect(line).toMatch(/ 503\b/)
})
