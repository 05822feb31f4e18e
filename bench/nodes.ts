/**
 * `npm run bench:nodes`: one, two and four nodes of this machine; one server with its databases in PostgreSQL beside one on
 * files and beside pouchdb-server; one, two and three servers over one PostgreSQL. Rates, and what servers, PostgreSQL and the
 * load generator used of the processors, in alternating rounds. One node is measured twice: what the second one differs by is
 * noise.
 */
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { findPostgres, TestPostgres } from '../test/support/postgres.ts'
import { BenchProgress } from './bench-progress.ts'
import { NodeProcess, temporaryFolder } from './child-process.ts'
import { CompiledGenerator } from './compiled-generator.ts'
import { machineFacts } from './machine.ts'
import { atFullCore, type Contender, type Figures, HEAD, measure, ratioOf, rowOf } from './node-figures.ts'
import {
  ALL_DOCS,
  ALL_DOCS_PAGE,
  BULK,
  CHANGES,
  GET_1,
  GET_32,
  type NodeLoad,
  PUT_1,
  PUT_4_DATABASES,
  PUT_32,
  VIEW,
  VIEW_CHANGED,
} from './node-loads.ts'
import { childrenOf, memoryUse } from './process-use.ts'
import { printTable } from './report.ts'
import { type StartedServer, startPouchdbServer, startSettle } from './servers.ts'

/** What a load should give, as a multiple of what another contender gives. */
interface Aim {
  readonly contender: number
  readonly of: number
  readonly least: number
}

interface AimedLoad {
  readonly load: NodeLoad
  readonly aims: readonly Aim[]
}

interface Section {
  readonly name: string
  readonly title: string
  readonly loads: readonly AimedLoad[]
  start(): Promise<Started[]>
}

interface Started extends Contender {
  stop(): Promise<void>
}

const ONE_NODE = 0
const TWO_NODES = 2
const FOUR_NODES = 3
const ON_POSTGRES = 0
const PEER = 2

/** Against pouchdb-server. */
const ahead = (least: number): Aim[] => [{ contender: ON_POSTGRES, of: PEER, least }]
const notSlower: Aim[] = [TWO_NODES, FOUR_NODES].map((contender) => ({ contender, of: ONE_NODE, least: 0.95 }))

const SECTIONS: readonly Section[] = [
  {
    name: 'nodes',
    title: 'nodes of one machine, on files',
    loads: [
      { load: GET_32, aims: [{ contender: TWO_NODES, of: ONE_NODE, least: 1.5 }] },
      { load: PUT_4_DATABASES, aims: [{ contender: TWO_NODES, of: ONE_NODE, least: 1.4 }] },
      { load: GET_1, aims: notSlower },
      { load: PUT_1, aims: notSlower },
    ],
    start: startNodes,
  },
  {
    name: 'engines',
    title: 'one server on PostgreSQL, on files, and pouchdb-server',
    loads: [
      ...[GET_32, GET_1, ALL_DOCS, ALL_DOCS_PAGE, CHANGES, VIEW].map((load) => ({ load, aims: ahead(5) })),
      ...[VIEW_CHANGED, PUT_32, PUT_1, BULK].map((load) => ({ load, aims: ahead(1) })),
    ],
    start: startEngines,
  },
  {
    name: 'servers',
    title: 'servers over one PostgreSQL',
    loads: [GET_32, PUT_4_DATABASES, GET_1].map((load) => ({ load, aims: [] })),
    start: startServers,
  },
]

const NAMES = SECTIONS.map(({ name }) => name).join(',')

const USAGE = `Usage: npm run bench:nodes -- [options]

  --quick          shorter rounds and smaller databases: two to three minutes instead of some ten
  --section NAMES  these alone, with commas between: ${NAMES}
  --only NAMES     these loads alone: ${[...new Set(SECTIONS.flatMap(({ loads }) => loads.map(({ load }) => load.name)))].join(',')}
  --rounds N       how often each server has its turn (5, quick: 2)
  --seconds N      how long a round is (1.2, quick: 0.5)
  --alone          without pouchdb-server
  --node-generator requests for single documents come from Node too, and not from the generator in C
  --help           print this

A rate as a multiple is that of the first line of its table. Where the processors of the machine are all in use (see the columns
on the right: the generator takes its share too), more nodes cannot give more. Then look at "with free cores", the rate divided
by what the busiest process used of a core, and at what a second of processor time gives.
`

const { values: flags } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    section: { type: 'string', default: NAMES },
    only: { type: 'string' },
    rounds: { type: 'string' },
    seconds: { type: 'string' },
    alone: { type: 'boolean', default: false },
    'node-generator': { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
})

const OPTIONS = {
  rounds: Number(flags.rounds ?? (flags.quick ? 2 : 5)),
  roundMs: Number(flags.seconds ?? (flags.quick ? 0.5 : 1.2)) * 1000,
  documents: flags.quick ? 500 : 5000,
  longestMs: flags.quick ? 4_000 : 40_000,
  warmSeconds: flags.quick ? 0.3 : 1.5,
  warmMs: flags.quick ? 500 : 6_000,
  generator: flags['node-generator'] || flags.help ? undefined : CompiledGenerator.build(),
}

/** What has not begun by then is left out, and said so: on a busy machine everything takes several times as long. */
const LONGEST_RUN_MS = flags.quick ? 150_000 : 810_000
const isTimeUp = () => performance.now() > LONGEST_RUN_MS

const CLI = join(import.meta.dirname, '../src/cli.ts')
const NODES = [1, 1, 2, 4]
const SERVERS = [1, 2, 3]

async function startNodes(): Promise<Started[]> {
  const started: Started[] = []
  for (const nodes of NODES) {
    const args = [CLI, '--port', '0', '--dir', join(temporaryFolder(), 'data'), '--nodes', String(nodes)]
    const settle = new NodeProcess({ args, environment: process.env })
    const url = await settle.printed(/(http:\/\/\S+)/)
    const name = `${nodes} node${nodes === 1 ? '' : 's'}`
    started.push({ name, urls: [url], pids: [settle.pid], stop: () => settle.stop() })
  }
  // The other nodes are started when the first one answers.
  await until(() => started.every(({ pids }, i) => childrenOf(pids[0]!).length >= NODES[i]!))
  await pause(1000)
  return started
}

async function startEngines(): Promise<Started[]> {
  const postgres = await startPostgres()
  const files = await startSettle()
  const started = [
    ...(postgres ? [await startOnPostgres(postgres, 1, 'settle on PostgreSQL', { isLast: true })] : []),
    { name: 'settle on files', urls: [files.url], pids: [files.process.pid], stop: () => files.process.stop() },
  ]
  if (flags.alone) return started
  try {
    const peer = await startPouchdbServer()
    started.push({ name: peer.name, urls: [peer.url], pids: [peer.process.pid], stop: () => peer.process.stop() })
  } catch (error) {
    notes.push(`Without pouchdb-server: ${error instanceof Error ? error.message : error}`)
  }
  return started
}

async function startServers(): Promise<Started[]> {
  const postgres = await startPostgres()
  if (!postgres) return []
  const started: Started[] = []
  for (const servers of SERVERS) {
    const name = `${servers} server${servers === 1 ? '' : 's'}`
    started.push(await startOnPostgres(postgres, servers, name, { isLast: servers === SERVERS.at(-1) }))
  }
  return started
}

async function startPostgres(): Promise<TestPostgres | undefined> {
  const found = findPostgres()
  if ('missing' in found) {
    notes.push(`Without PostgreSQL: ${found.missing}`)
    return undefined
  }
  const postgres = await TestPostgres.start(tmpdir())
  process.once('exit', () => postgres.remove())
  return postgres
}

/** Servers over the same tables. */
async function startOnPostgres(
  postgres: TestPostgres,
  count: number,
  name: string,
  { isLast }: { readonly isLast: boolean },
): Promise<Started> {
  const engine = postgres.address(`servers_${count}`)
  const settles: StartedServer[] = []
  for (let i = 0; i < count; i++) settles.push(await startSettle({ engine }))
  return {
    name,
    urls: settles.map(({ url }) => url),
    pids: settles.map(({ process: { pid } }) => pid),
    postgresPid: postgres.pid,
    stop: async () => {
      await Promise.all(settles.map((settle) => settle.process.stop()))
      if (isLast) postgres.remove()
    },
  }
}

async function until(isSo: () => boolean): Promise<void> {
  for (const endMs = performance.now() + 30_000; !isSo() && performance.now() < endMs; ) await pause(100)
}

const notes: string[] = []
const aims: string[][] = []
const memory: string[][] = []
const tables: (() => void)[] = []

async function runSection(section: Section, loads: readonly AimedLoad[], progress: BenchProgress): Promise<void> {
  const contenders = isTimeUp() ? [] : await section.start()
  try {
    for (const { load, aims: wanted } of loads) {
      progress.begin(`${section.title}: ${load.title}`)
      if (isTimeUp()) notes.push(`${section.title}: ${load.title}: left out, since the time was up`)
      if (contenders.length === 0 || isTimeUp()) continue
      const figures = await measure(load, contenders, OPTIONS)
      tables.push(() => printFigures(section, load, contenders, figures))
      for (const aim of wanted) aims.push(...aimRow(load, aim, contenders, figures))
      for (const [i, { failure }] of figures.entries()) {
        if (failure !== undefined) notes.push(`${load.name} failed on ${contenders[i]!.name}: ${failure}`)
      }
    }
    for (const { name, pids } of contenders) memory.push([section.name, name, memoryOf(pids)])
  } finally {
    for (const { stop } of contenders) await stop()
  }
}

function printFigures(section: Section, load: NodeLoad, contenders: readonly Contender[], figures: Figures[]): void {
  console.log(`\n${section.title}: ${load.title} (${load.unit})`)
  printTable(
    ['', ...HEAD],
    figures.map((own, i) => [contenders[i]!.name, ...rowOf(own, figures[0]!)]),
  )
}

function aimRow(load: NodeLoad, aim: Aim, contenders: readonly Contender[], figures: Figures[]): string[][] {
  const [own, other] = [figures[aim.contender], figures[aim.of]]
  if (!own || !other || own.failure !== undefined || other.failure !== undefined) return []
  const ratios = [
    ratioOf(own.rates, other.rates),
    ratioOf(own.perSecondOfAll, other.perSecondOfAll),
    ratioOf(atFullCore(own), atFullCore(other)),
  ]
  const texts = ratios.map((ratio) => (ratio === undefined ? '-' : `${ratio.toFixed(2)}×`))
  const isReached = (ratios[0] ?? 0) >= aim.least
  const names = `${contenders[aim.contender]!.name} / ${contenders[aim.of]!.name}`
  return [[`${names}: ${load.title}`, `${aim.least}×`, ...texts, isReached ? 'reached' : 'missed']]
}

/** Private memory of each process that answers; a supervisor comes before its nodes. */
function memoryOf(pids: readonly number[]): string {
  const all = pids.flatMap((pid) => [pid, ...childrenOf(pid)])
  return all.map((pid) => `${Math.round(memoryUse(pid).ownBytes / 2 ** 20)} MB`).join(', ')
}

const GENERATOR_NOTE = {
  compiled:
    'GET and PUT of single documents come from a generator in C. Where it has several connections, it lets replies gather for a fifth of a millisecond before it sends the next requests',
  node: 'all requests come from a generator in Node, without a C compiler (cc) or by choice: it takes several times as much of the processors as one in C',
}

async function main(): Promise<void> {
  if (flags.help) {
    process.stdout.write(USAGE)
    return
  }
  const facts = machineFacts()
  const only = flags.only?.split(',')
  const chosen = SECTIONS.filter(({ name }) => flags.section.split(',').includes(name)).map((section) => ({
    section,
    loads: section.loads.filter(({ load }) => !only || only.includes(load.name)),
  }))
  const progress = new BenchProgress(chosen.reduce((sum, { loads }) => sum + loads.length, 0))
  for (const { section, loads } of chosen) if (loads.length > 0) await runSection(section, loads, progress)
  for (const print of tables) print()
  if (aims.length > 0) {
    console.log('\naims')
    printTable(['', 'aim', 'rate', 'per processor second', 'with free cores', 'by rate'], aims)
  }
  console.log('\nmemory of each process at the end')
  printTable(['section', 'servers', 'private'], memory)
  console.log()
  console.log(GENERATOR_NOTE[OPTIONS.generator ? 'compiled' : 'node'])
  for (const note of notes) console.log(note)
  for (const fact of [
    ...facts,
    ...machineFacts()
      .slice(1, 2)
      .map((fact) => fact.replace('before the run', 'after it')),
  ])
    console.log(fact)
  console.log('pouchdb-server does not flush to disk before it answers; the others do')
}

main().then(
  () => process.exit(),
  (error: unknown) => {
    process.stderr.write(`bench: ${error instanceof Error ? error.message : error}\n`)
    process.exit(1)
  },
)
