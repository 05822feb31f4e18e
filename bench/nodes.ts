/**
 * `npm run bench:nodes`: the same loads on one, two and four nodes of this machine, in alternating rounds. Rates as
 * multiples of one node, with what the servers and the load generator used of the processors: where these are all in use,
 * more nodes cannot give more. What the busiest process used of a core tells what free cores would give: the rate divided by
 * it. One node is measured twice: what the second one differs by is noise. `--rounds N`, `--only WORD`; some six minutes.
 */
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { BenchDatabase, expectStatus } from './bench-database.ts'
import { NodeProcess, temporaryFolder } from './child-process.ts'
import { median } from './comparison.ts'
import { drive, type Load } from './load.ts'
import { machineFacts } from './machine.ts'
import { childrenOf, memoryUse, processorSeconds, processorSecondsOfTree } from './process-use.ts'
import { count, printTable } from './report.ts'
import { documentId, documentMembers } from './sample-documents.ts'
import { getDocuments, putDocuments } from './workloads.ts'

const { values } = parseArgs({ options: { rounds: { type: 'string' }, only: { type: 'string' } } })
const ROUNDS = Number(values.rounds ?? 7)
const ROUND_MS = 1500
const NODES = [1, 1, 2, 4]
/**
 * Each process compiles what it runs often. One that is new to a load takes two or three times as long for each request, and
 * of four nodes each gets a quarter of them.
 */
const WARM_SECONDS = 2
const WARM_ROUNDS = 30
const DOCUMENTS = 2000
const WRITTEN_DATABASES = 4

const CLI = join(import.meta.dirname, '../src/cli.ts')

interface Server {
  readonly nodes: number
  readonly url: string
  readonly process: NodeProcess
}

interface Bench {
  readonly title: string
  readonly aim: string
  /** The load, made once for each server. */
  load(server: Server): Promise<Load>
}

interface Figures {
  readonly rates: number[]
  readonly processorUs: number[]
  readonly cores: number[]
  readonly busiest: number[]
  readonly generator: number[]
}

const BENCHES: readonly Bench[] = [
  {
    title: 'GET, 32 connections',
    aim: '2 nodes ≥ 1.5',
    load: async ({ url }) => getDocuments(await filled(url, 'read'), { connections: 32, documents: DOCUMENTS }),
  },
  {
    title: 'GET, 1 connection',
    aim: '≥ 0.95',
    load: async ({ url }) => getDocuments(await filled(url, 'read-1'), { connections: 1, documents: DOCUMENTS }),
  },
  { title: 'PUT over 4 databases, 32 connections', aim: '2 nodes ≥ 1.4', load: ({ url }) => putOverDatabases(url) },
  {
    title: 'PUT, 1 connection',
    aim: '≥ 0.95',
    load: async ({ url }) => putDocuments(await created(url, 'write-1'), { connections: 1, firstNumber: 0 }),
  },
]

/** Rates as multiples of those of the same rounds. */
function ofFirst(rates: readonly number[], first: readonly number[]): string {
  return median(rates.map((rate, round) => rate / first[round]!)).toFixed(2)
}

/** What the rates would be if the busiest process had a core to itself. */
function atFullCore({ rates, busiest }: Figures): number[] {
  return rates.map((rate, round) => rate / busiest[round]!)
}

async function created(url: string, name: string): Promise<BenchDatabase> {
  const database = new BenchDatabase(url, name)
  await database.create()
  return database
}

async function filled(url: string, name: string): Promise<BenchDatabase> {
  const database = await created(url, name)
  await database.fill(DOCUMENTS, 1024)
  return database
}

async function putOverDatabases(url: string): Promise<Load> {
  const names = Array.from({ length: WRITTEN_DATABASES }, (_, i) => `write-${String.fromCharCode(97 + i)}`)
  const databases = await Promise.all(names.map((name) => created(url, name)))
  let number = 0
  return {
    connections: 32,
    next: () => {
      const database = databases[number % databases.length]!
      const body = `{${documentMembers(number, 300)}}`
      const request = database.request('PUT', `/${documentId(number++)}`, body)
      return {
        request,
        check: (reply) => {
          expectStatus(reply, 201)
          return 1
        },
      }
    },
  }
}

async function start(nodes: number): Promise<Server> {
  const dir = join(temporaryFolder(), 'data')
  const args = [CLI, '--port', '0', '--dir', dir, '--nodes', String(nodes)]
  const settle = new NodeProcess({ args, environment: process.env })
  return { nodes, url: await settle.printed(/(http:\/\/\S+)/), process: settle }
}

/** The processor time of each process of a server so far. */
function processorSecondsOf(server: Server): Map<number, number> {
  return new Map(childrenOf(server.process.pid).map((pid) => [pid, processorSeconds(pid)]))
}

/** Loads a server with many connections, until each node has worked for a while. */
async function warmUp(server: Server, load: Load): Promise<void> {
  const before = processorSecondsOf(server)
  const address = new BenchDatabase(server.url, '').server
  for (let round = 0; round < WARM_ROUNDS; round++) {
    await drive(address, { ...load, connections: 32 }, 500)
    const worked = [...processorSecondsOf(server)].map(([pid, seconds]) => seconds - (before.get(pid) ?? 0))
    if (Math.min(...worked) >= WARM_SECONDS) return
  }
}

const servers: Server[] = []
const facts = machineFacts()
try {
  for (const nodes of NODES) servers.push(await start(nodes))
  // The other nodes are started when the first one answers.
  await pause(5000)
  for (const { title, aim, load } of BENCHES.filter((each) => each.title.includes(values.only ?? ''))) {
    const loads = await Promise.all(servers.map((server) => load(server)))
    const figures = servers.map((): Figures => ({ rates: [], processorUs: [], cores: [], busiest: [], generator: [] }))
    for (const [i, server] of servers.entries()) await warmUp(server, loads[i]!)
    for (let round = 0; round < ROUNDS; round++) {
      for (const [i, server] of servers.entries()) {
        const { pid } = server.process
        const before = processorSecondsOfTree(pid)
        const beforeOfNodes = processorSecondsOf(server)
        const begunMs = performance.now()
        const generatorBefore = process.cpuUsage()
        const address = new BenchDatabase(server.url, '').server
        const { units, unitsPerSecond } = await drive(address, loads[i]!, ROUND_MS)
        const { user, system } = process.cpuUsage(generatorBefore)
        const elapsedSeconds = (performance.now() - begunMs) / 1000
        const usedSeconds = processorSecondsOfTree(pid) - before
        const worked = [...processorSecondsOf(server)].map(
          ([node, seconds]) => seconds - (beforeOfNodes.get(node) ?? 0),
        )
        figures[i]!.busiest.push(Math.max(...worked) / elapsedSeconds)
        figures[i]!.rates.push(unitsPerSecond)
        figures[i]!.processorUs.push((usedSeconds * 1e6) / units)
        figures[i]!.cores.push(usedSeconds / elapsedSeconds)
        figures[i]!.generator.push((user + system) / 1e6 / elapsedSeconds)
      }
    }
    console.log()
    printTable(
      [
        `${title} (aim: ${aim})`,
        'of 1 node',
        'with free cores',
        'requests/s',
        'µs of processors a request',
        'servers',
        'busiest process',
        'generator',
      ],
      figures.map((own, i) => [
        `${NODES[i]} node${NODES[i] === 1 ? '' : 's'}`,
        `${ofFirst(own.rates, figures[0]!.rates)}×`,
        `${ofFirst(atFullCore(own), atFullCore(figures[0]!))}×`,
        count(median(own.rates)),
        count(median(own.processorUs)),
        `${median(own.cores).toFixed(2)} cores`,
        `${median(own.busiest).toFixed(2)} cores`,
        `${median(own.generator).toFixed(2)} cores`,
      ]),
    )
  }
  console.log()
  for (const { nodes, process: settle } of servers) {
    const own = childrenOf(settle.pid).map((pid) => memoryUse(pid).ownBytes)
    const sizes = own.map((bytes) => `${Math.round(bytes / 2 ** 20)} MB`).join(', ')
    console.log(`memory of each process at ${nodes} node${nodes === 1 ? '' : 's'}, the primary first: ${sizes}`)
  }
  for (const fact of facts) console.log(fact)
} finally {
  for (const { process: settle } of servers) await settle.stop()
}
