/** `npm run bench:many`: ten thousand databases on one server, and ten thousand listeners of one database. */
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { BenchDatabase, parsed } from './bench-database.ts'
import { temporaryFolder } from './child-process.ts'
import { percentile } from './comparison.ts'
import { HttpConnection, requestText } from './http-connection.ts'
import { machineFacts } from './machine.ts'
import { descriptorsOf, memoryUse, processorSeconds } from './process-use.ts'
import { count, percent, printTable } from './report.ts'
import { type StartedServer, startSettle } from './servers.ts'

type Row = readonly [title: string, figure: string]

const { values: flags } = parseArgs({
  options: { databases: { type: 'string', default: '10000' }, listeners: { type: 'string', default: '10000' } },
})
const DATABASES = Number(flags.databases)
const LISTENERS = Number(flags.listeners)
const LANES = 8
const READS = 20_000
const UPDATES = 20
const OPENED_AT_ONCE = 50

async function main(): Promise<void> {
  const facts = machineFacts()
  const rows = [...(await manyDatabases()), ...(await manyListeners())]
  printTable(['', ''], rows)
  for (const fact of facts) console.log(fact)
}

async function manyDatabases(): Promise<Row[]> {
  const dir = join(temporaryFolder(), 'data')
  const first = await startSettle({ dir })
  process.stderr.write(`creating ${count(DATABASES)} databases…\n`)
  const createdMs = await inLanes(first, DATABASES, async (ask, i) => {
    await ask('PUT', `/db-${i}`, 201)
    await ask('PUT', `/db-${i}/doc`, 201, '{"n":1}')
  })
  const afterCreation = privateMegabytes(first)
  await first.process.stop()

  process.stderr.write('starting with them…\n')
  const begunMs = performance.now()
  const server = await startSettle({ dir })
  const startMs = performance.now() - begunMs
  const afterStart = privateMegabytes(server)
  const listedMs = await inLanes(server, 1, async (ask) => {
    const names = await ask('GET', '/_all_dbs', 200)
    if (!Array.isArray(names) || names.length < DATABASES) throw new Error('Databases are missing.')
  })
  const latenciesMs: number[] = []
  await inLanes(server, READS, async (ask) => {
    const sentMs = performance.now()
    await ask('GET', `/db-${Math.floor(Math.random() * DATABASES)}/doc`, 200)
    latenciesMs.push(performance.now() - sentMs)
  })
  const rows: Row[] = [
    [`${count(DATABASES)} databases created, a document in each`, `${perSecond(DATABASES, createdMs)} a second`],
    ['private memory after that', `${afterCreation} MB`],
    ['start of a server that has them', `${Math.round(startMs)} ms, ${afterStart} MB`],
    ['`_all_dbs`', `${Math.round(listedMs)} ms`],
    ['GET of a document in any of them, p50 and p99', latencies(latenciesMs)],
    [`memory and descriptors after ${count(READS)} of these`, `${privateMegabytes(server)} MB, ${descriptors(server)}`],
  ]
  await server.process.stop()
  return rows
}

async function manyListeners(): Promise<Row[]> {
  const server = await startSettle()
  const database = new BenchDatabase(server.url, 'followed')
  await database.create()
  await database.fill(1000, 300)
  const before = memoryUse(server.process.pid).ownBytes
  process.stderr.write(`opening ${count(LISTENERS)} listeners…\n`)
  const listeners: Listener[] = []
  while (listeners.length < LISTENERS) {
    const some = Math.min(OPENED_AT_ONCE, LISTENERS - listeners.length)
    listeners.push(...(await Promise.all(Array.from({ length: some }, () => Listener.open(database)))))
  }
  await delay(3000)
  const each = (memoryUse(server.process.pid).ownBytes - before) / LISTENERS
  const idleFrom = processorSeconds(server.process.pid)
  await delay(5000)
  const idleShare = (processorSeconds(server.process.pid) - idleFrom) / 5
  const updatesMs: number[] = []
  for (let update = 0; update < UPDATES; update++) {
    const id = `update-${update}`
    const all = Promise.all(listeners.map((listener) => listener.receives(`"${id}"`)))
    const sentMs = performance.now()
    await database.call('PUT', `/${id}`, 201, '{}')
    await all
    updatesMs.push(performance.now() - sentMs)
  }
  const rows: Row[] = [
    [`${count(LISTENERS)} continuous feeds: private memory of each`, `${(each / 1024).toFixed(1)} KiB`],
    ['processor use while nothing changes', `${percent(idleShare)} of a core`],
    ['from a PUT until the last of them has the change, p50 and p99', latencies(updatesMs)],
  ]
  for (const listener of listeners) listener.close()
  await server.process.stop()
  return rows
}

type Ask = (method: string, path: string, status: number, body?: string) => Promise<unknown>

/** How long all of them took. */
async function inLanes(
  { url }: StartedServer,
  amount: number,
  step: (ask: Ask, i: number) => Promise<void>,
): Promise<number> {
  const { server } = new BenchDatabase(url, '')
  const begunMs = performance.now()
  let next = 0
  const lane = async () => {
    const connection = await HttpConnection.open(server)
    const ask: Ask = async (method, path, status, body) =>
      parsed(await connection.exchange(requestText(server, method, path, body)), status)
    for (let i = next++; i < amount; i = next++) await step(ask, i)
    connection.destroy()
  }
  await Promise.all(Array.from({ length: Math.min(LANES, amount) }, lane))
  return performance.now() - begunMs
}

/** As little of a client as will do: there are thousands of them in this process. */
class Listener {
  readonly #socket: Socket
  #awaited: { readonly text: string; resolve(): void } | undefined

  static async open(database: BenchDatabase): Promise<Listener> {
    const { host, port } = database.server
    const listener = new Listener(connect({ host, port }))
    const answered = listener.receives('HTTP/1.1 200')
    listener.#socket.write(database.request('GET', '/_changes?feed=continuous&since=now&heartbeat=60000'))
    await answered
    return listener
  }

  private constructor(socket: Socket) {
    this.#socket = socket
    socket.on('data', (data) => {
      if (!this.#awaited || !data.includes(this.#awaited.text)) return
      this.#awaited.resolve()
      this.#awaited = undefined
    })
  }

  receives(text: string): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    this.#awaited = { text, resolve }
    this.#socket.once('error', reject)
    return promise.finally(() => this.#socket.off('error', reject))
  }

  close(): void {
    this.#socket.destroy()
  }
}

function privateMegabytes({ process: { pid } }: StartedServer): number {
  return Math.round(memoryUse(pid).ownBytes / 1e6)
}

function descriptors({ process: { pid } }: StartedServer): string {
  return `${count(descriptorsOf(pid))} descriptors`
}

function perSecond(amount: number, ms: number): string {
  return count((1000 * amount) / ms)
}

function latencies(ms: readonly number[]): string {
  return `${percentile(ms, 0.5).toFixed(1)} and ${percentile(ms, 0.99).toFixed(1)} ms`
}

main().then(
  () => process.exit(),
  (error: unknown) => {
    process.stderr.write(`bench: ${error instanceof Error ? error.message : error}\n`)
    process.exit(1)
  },
)
