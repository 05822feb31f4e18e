import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { Service, ServiceOptions } from '../src/service.ts'
import { startService } from './support/service.ts'
import { temporaryFolder } from './support/temporary-folder.ts'

/** A program of the test's own, and the lines that it left in a file. */
class Program {
  readonly command: string
  readonly #output: string

  static async write(text: string): Promise<Program> {
    const folder = await temporaryFolder()
    const [file, output] = [join(folder, 'program.cjs'), join(folder, 'output')]
    await writeFile(file, `${PRELUDE}\n${text}`)
    return new Program(`${process.execPath} ${file} ${output}`, output)
  }

  private constructor(command: string, output: string) {
    this.command = command
    this.#output = output
  }

  async lines(): Promise<unknown[]> {
    const text = await readFile(this.#output, 'utf8').catch(() => '')
    return text
      .split('\n')
      .slice(0, -1)
      .map((line): unknown => JSON.parse(line))
  }

  /** Waits until it left as many lines as these, and no others. */
  async left(expected: readonly unknown[]): Promise<void> {
    await expect.poll(() => this.lines()).toEqual(expected)
  }

  /** Waits until it left some lines; gives them. */
  async leftSome(count: number): Promise<unknown[]> {
    await expect.poll(async () => (await this.lines()).length).toBeGreaterThanOrEqual(count)
    return this.lines()
  }
}

/** `leave` puts a line into the output, `say` speaks to the server, `hear` is called with each line from it. */
const PRELUDE = `
const { appendFileSync } = require('node:fs')
const leave = (value) => appendFileSync(process.argv[2], JSON.stringify(value) + '\\n')
const say = (value) => console.log(JSON.stringify(value))
const hear = (listener) => require('node:readline').createInterface(process.stdin)
  .on('line', (line) => listener(JSON.parse(line)))
`

const LEAVES_ITS_PID = 'leave(process.pid); process.stdin.resume()'

function isRunning(pid: unknown): boolean {
  try {
    return process.kill(Number(pid), 0)
  } catch {
    return false
  }
}

async function call({ url }: Service, method: string, path: string, body?: unknown): Promise<unknown> {
  const response = await fetch(`${url}${path}`, {
    method,
    headers: { 'Content-Type': 'application/json' },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  })
  return response.json()
}

/** A service whose log lines the test receives. */
async function loggingService(options: ServiceOptions): Promise<{ service: Service; logged: string[] }> {
  const logged: string[] = []
  const at = (level: string) => (message: string) => void logged.push(`${level}: ${message}`)
  const log = { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }
  return { service: await startService({ log, ...options }), logged }
}

describe('a program of update_notification', () => {
  it('receives events of databases and design documents, and nothing else', async () => {
    const program = await Program.write('hear(leave)')
    const service = await startService({ settings: { update_notification: { test: program.command } } })
    await call(service, 'PUT', 'db')
    await call(service, 'PUT', 'db/_local/a', {})
    await call(service, 'PUT', 'db/_security', {})
    await call(service, 'PUT', 'db/_revs_limit', 10)
    await call(service, 'PUT', 'db/a', {})
    await call(service, 'PUT', 'db/a', { refused: true })
    await call(service, 'POST', 'db/_bulk_docs', { docs: [{ _id: 'b' }, { _id: '_design/x' }, { _id: 'c' }] })
    const { _rev } = (await call(service, 'GET', 'db/b')) as { _rev: string }
    await call(service, 'POST', 'db/_purge', { b: [_rev] })
    await call(service, 'POST', 'db/_compact')
    const before = [
      { type: 'created', db: 'db' },
      { type: 'updated', db: 'db' },
      { type: 'updated', db: 'db' },
      { type: 'ddoc_updated', db: 'db', id: '_design/x' },
      { type: 'updated', db: 'db' },
      { type: 'compacted', db: 'db' },
    ]
    await program.left(before)
    await call(service, 'DELETE', 'db')
    await program.left([...before, { type: 'deleted', db: 'db' }])
  })

  it('is started again when it ends', async () => {
    const program = await Program.write('leave(process.pid); hear((event) => { leave(event); process.exit() })')
    const service = await startService({ settings: { update_notification: { a: program.command } } })
    await program.leftSome(1)
    await call(service, 'PUT', 'one')
    await program.leftSome(3)
    await call(service, 'PUT', 'two')
    const [first, one, second, two] = await program.leftSome(4)
    expect([one, two]).toEqual([
      { type: 'created', db: 'one' },
      { type: 'created', db: 'two' },
    ])
    expect(second).not.toBe(first)
  })
})

describe('a program of os_daemons', () => {
  it('runs from a file of the operator, and ends with the service', async () => {
    const program = await Program.write(LEAVES_ITS_PID)
    const dir = await temporaryFolder()
    await writeFile(join(dir, 'local.ini'), `[os_daemons]\ntest = ${program.command}\n`)
    const service = await startService({ dir })
    const [pid] = await program.leftSome(1)
    expect(isRunning(pid)).toBe(true)
    await service.close()
    expect(isRunning(pid)).toBe(false)
  })

  it('reads settings', async () => {
    const program = await Program.write(`
      hear(leave)
      say(['get', 'test'])
      say(['get', 'test', 'a'])
      say(['get', 'test', 'missing'])
      say(['get', 'missing'])
      say(['get', 'couchdb', 'max_dbs_open'])`)
    await startService({
      settings: { os_daemons: { test: program.command }, test: { a: '1', b: '2' } },
    })
    await program.left([{ a: '1', b: '2' }, '1', null, {}, '500'])
  })

  it('writes into the log at any level, and gets no answer to an invalid request', async () => {
    const program = await Program.write(`
      hear(leave)
      say(['log', 'plain'])
      say(['log', 'bad', { level: 'error' }])
      say(['log', 'detail', { level: 'debug' }])
      say(['get'])
      say({ get: 'test' })
      console.log('not JSON')
      say(['get', 'test', 'a'])`)
    const { logged } = await loggingService({ settings: { os_daemons: { test: program.command }, test: { a: '1' } } })
    await program.left(['1'])
    expect(logged).toEqual(expect.arrayContaining(['info: plain', 'error: bad', 'debug: detail']))
    expect(logged.filter((line) => line.includes('not a request'))).toHaveLength(3)
  })

  it.each([
    ['a section', `['register', 'test']`],
    ['a setting', `['register', 'test', 'a']`],
  ])('is restarted when %s changes that it registered for', async (_, request) => {
    const program = await Program.write(`
      say(${request})
      say(['get', 'test', 'a'])
      hear(leave)`)
    const settings = { os_daemons: { test: program.command }, test: { a: 'before' } }
    const service = await startService({ settings })
    await program.left(['before'])
    await call(service, 'PUT', '_config/other/a', 'other')
    await call(service, 'PUT', '_config/test/a', 'after')
    await program.left(['before', 'after'])
  })

  it('is halted when it ends too often, until its settings change', async () => {
    const program = await Program.write('leave(process.pid)')
    const { service, logged } = await loggingService({
      settings: { os_daemons: { test: program.command }, os_daemon_settings: { max_retries: '2', retry_time: '60' } },
    })
    const halts = () => logged.filter((line) => line.includes('halted')).length
    await expect.poll(halts).toBe(1)
    expect(await program.lines()).toHaveLength(3)
    await call(service, 'PUT', '_config/os_daemons/test', program.command)
    await expect.poll(halts).toBe(2)
    expect(await program.lines()).toHaveLength(6)
  })

  it('is restarted with the service', async () => {
    const program = await Program.write(LEAVES_ITS_PID)
    const service = await startService({ settings: { os_daemons: { test: program.command } } })
    await program.leftSome(1)
    await call(service, 'POST', '_restart')
    const [first, second] = await program.leftSome(2)
    expect([isRunning(first), isRunning(second)]).toEqual([false, true])
  })
})

describe('a command that was set over HTTP', () => {
  it.each(['os_daemons', 'update_notification'])('is never run, in %s', async (section) => {
    const [given, wanted] = [await Program.write(LEAVES_ITS_PID), await Program.write(LEAVES_ITS_PID)]
    const dir = await temporaryFolder()
    await writeFile(join(dir, 'local.ini'), `[${section}]\ngiven = ${given.command}\n`)
    const service = await startService({ dir })
    const [pid] = await given.leftSome(1)
    await call(service, 'PUT', `_config/${section}/new`, wanted.command)
    await call(service, 'PUT', `_config/${section}/given`, wanted.command)
    expect(isRunning(pid)).toBe(false)
    await service.close()

    // Nor at the next start, which finds it among what was stored; but the operator's own runs when it counts again.
    const next = await startService({ dir })
    await call(next, 'PUT', `_config/${section}/given`, given.command)
    await given.leftSome(2)
    expect(await wanted.lines()).toEqual([])
  })

  it('may be the end of a program that runs', async () => {
    const program = await Program.write(LEAVES_ITS_PID)
    const service = await startService({ settings: { os_daemons: { test: program.command } } })
    const [pid] = await program.leftSome(1)
    await call(service, 'DELETE', '_config/os_daemons/test')
    expect(isRunning(pid)).toBe(false)
  })
})
