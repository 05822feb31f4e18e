/**
 * `npm run bench:selectors`: selector queries of this server beside those of pouchdb-server, on the same documents in one
 * run, and the build of an index beside that of a map view of our own that emits the same. Every answer is checked.
 */
import { BenchDatabase, expectStatus, member, parsed } from './bench-database.ts'
import { median } from './comparison.ts'
import { DOCUMENT_BYTES, DOCUMENTS, FIRST_NUMBER, IS_ALONE, ROUND_MS, ROUNDS, tell } from './filled-databases.ts'
import { HttpConnection } from './http-connection.ts'
import { drive, type Load } from './load.ts'
import { machineFacts } from './machine.ts'
import { processorSecondsOfTree } from './process-use.ts'
import { count, printTable } from './report.ts'
import { type RunningServer, startPouchdbServer, startSettle } from './servers.ts'

const PAGE = 25
/** What the system counts processor time in. */
const TICK_S = 0.01
const JSON_TYPE = { contentType: 'application/json' }

interface Finding {
  readonly title: string
  readonly unit: string
  /** How many times as good as the peer. */
  readonly aim: number
  /** One a server. */
  readonly figures: readonly number[]
}

async function main(): Promise<void> {
  const servers: RunningServer[] = [await startSettle()]
  if (!IS_ALONE) servers.push(await startPouchdbServer())
  const databases = servers.map(({ url }) => new BenchDatabase(url, 'selectors'))
  for (const [i, database] of databases.entries()) {
    tell(`${count(DOCUMENTS)} documents for ${servers[i]?.name}`)
    await database.create()
    await database.fill(DOCUMENTS, DOCUMENT_BYTES)
  }
  const targets = databases.map((database, i) => ({ database, server: servers[i]! }))
  const findings: Finding[] = [
    ...(await inTurns('index build', 'documents', 50, targets, buildIndex, 1)),
    ...(await inTurns(`indexed _find of ${PAGE}`, 'requests', 20, targets, indexedFinds)),
    ...(await inTurns('unindexed scan', 'documents', 20, targets, scan)),
  ]
  const own = await besideMapView(servers[0]!, databases[0]!)
  await Promise.all(servers.map((server) => server.process?.stop()))
  report(findings, servers)
  console.log()
  for (const line of own) console.log(line)
  for (const fact of machineFacts()) console.log(fact)
}

interface Target {
  readonly database: BenchDatabase
  readonly server: RunningServer
}

/** So much was done in that time. */
interface Done {
  readonly units: number
  readonly elapsedMs: number
}

/** By the clock, and by the processor time of the server's processes: that tells more where the machine is busy. */
async function inTurns(
  title: string,
  unit: string,
  aim: number,
  targets: readonly Target[],
  measure: (database: BenchDatabase) => Promise<Done>,
  rounds = ROUNDS,
): Promise<Finding[]> {
  tell(title)
  const byClock: number[][] = targets.map(() => [])
  const byProcessor: number[][] = targets.map(() => [])
  for (let round = 0; round < rounds; round++) {
    for (const [i, { database, server }] of targets.entries()) {
      const pid = server.process?.pid ?? process.pid
      const before = processorSecondsOfTree(pid)
      const { units, elapsedMs } = await measure(database)
      byClock[i]?.push(units / (elapsedMs / 1000))
      byProcessor[i]?.push(units / Math.max(TICK_S, processorSecondsOfTree(pid) - before))
    }
  }
  return [
    { title, unit: `${unit}/s`, aim, figures: byClock.map(median) },
    { title: '  the same', unit: `${unit} a processor second`, aim, figures: byProcessor.map(median) },
  ]
}

async function timedFind(
  database: BenchDatabase,
  query: object,
  check: (documents: unknown[]) => void,
): Promise<number> {
  const connection = await HttpConnection.open(database.server)
  try {
    const start = performance.now()
    const reply = await connection.exchange(database.request('POST', '/_find', JSON.stringify(query), JSON_TYPE))
    const elapsedMs = performance.now() - start
    check(documentsIn(parsed(reply, 200)))
    return elapsedMs
  } finally {
    connection.destroy()
  }
}

function documentsIn(answer: unknown): unknown[] {
  const documents = member(answer, 'docs')
  if (!Array.isArray(documents)) throw new Error('The answer has no documents.')
  return documents
}

function expectNumber(documents: unknown[], number: number): void {
  if (member(documents[0], 'number') !== number) throw new Error(`Document ${number} was not found first.`)
}

/** Some servers build it when it is made, some when it is asked. */
async function buildIndex(database: BenchDatabase): Promise<Done> {
  const start = performance.now()
  await database.call('POST', '/_index', 200, JSON.stringify({ index: { fields: ['number'] }, name: 'n' }), JSON_TYPE)
  const number = FIRST_NUMBER + 7
  await timedFind(database, { selector: { number }, limit: 1 }, (found) => expectNumber(found, number))
  return { units: DOCUMENTS, elapsedMs: performance.now() - start }
}

async function indexedFinds(database: BenchDatabase): Promise<Done> {
  const load: Load = {
    connections: 32,
    next: () => {
      const first = FIRST_NUMBER + Math.floor(Math.random() * (DOCUMENTS - PAGE))
      const query = JSON.stringify({ selector: { number: { $gte: first } }, limit: PAGE })
      return {
        request: database.request('POST', '/_find', query, JSON_TYPE),
        check: (reply) => {
          expectStatus(reply, 200)
          if (!reply.body.includes(`"number":${first + PAGE - 1},`)) throw new Error('A document was not found.')
          return 1
        },
      }
    },
  }
  const { units, unitsPerSecond } = await drive(database.server, load, ROUND_MS)
  return { units, elapsedMs: (1000 * units) / unitsPerSecond }
}

/** Nothing matches, so every document is looked at. */
async function scan(database: BenchDatabase): Promise<Done> {
  const query = { selector: { active: true, type: 'other' } }
  const elapsedMs = await timedFind(database, query, (found) => {
    if (found.length > 0) throw new Error('Nothing should have been found.')
  })
  return { units: DOCUMENTS, elapsedMs }
}

interface Build {
  readonly elapsedMs: number
  readonly processorMs: number
}

/** Each time another definition, since the same would be there already. */
async function besideMapView(server: RunningServer, database: BenchDatabase): Promise<string[]> {
  const builds: { index: Build[]; view: Build[] } = { index: [], view: [] }
  for (let round = 0; round < ROUNDS; round++) {
    tell(`index and map view, round ${round + 1}`)
    const map = `function (doc) { /* ${round} */ if (doc.number !== undefined && doc.type !== undefined) emit([doc.number, doc.type], null) }`
    await database.call('PUT', `/_design/map${round}`, 201, JSON.stringify({ views: { rows: { map } } }))
    builds.view.push(await measured(server, () => database.call('GET', `/_design/map${round}/_view/rows?limit=1`, 200)))
    const index = { fields: ['number', 'type'], partial_filter_selector: { type: { $ne: `${round}` } } }
    const ddoc = `index${round}`
    await database.call('POST', '/_index', 200, JSON.stringify({ index, ddoc, name: 'n' }), JSON_TYPE)
    const query = { selector: { number: FIRST_NUMBER, type: 'sample' }, use_index: ddoc }
    const ask = () => timedFind(database, query, (found) => expectNumber(found, FIRST_NUMBER))
    builds.index.push(await measured(server, ask))
  }
  const middle = (list: readonly Build[], name: keyof Build) => median(list.map((build) => build[name]))
  return (['elapsedMs', 'processorMs'] as const).map((name) => {
    const [index, view] = [middle(builds.index, name), middle(builds.view, name)]
    const what = name === 'elapsedMs' ? 'time on the clock' : 'processor time of all processes'
    return `index build beside a map view that emits the same, ${what}: ${(view / index).toPrecision(2)}x (aim 3x), ${count(index)} ms against ${count(view)} ms`
  })
}

async function measured(server: RunningServer, work: () => Promise<unknown>): Promise<Build> {
  const pid = server.process?.pid ?? process.pid
  const before = processorSecondsOfTree(pid)
  const start = performance.now()
  await work()
  return { elapsedMs: performance.now() - start, processorMs: 1000 * (processorSecondsOfTree(pid) - before) }
}

function report(findings: readonly Finding[], servers: readonly RunningServer[]): void {
  const [own = '', peer] = servers.map(({ name }) => name)
  const rows = findings.map(({ title, unit, aim, figures: [ours = 0, theirs] }) => {
    const ratio = theirs === undefined ? undefined : ours / theirs
    return [
      title,
      ratio === undefined ? '' : `${ratio.toPrecision(2)}x`,
      ratio === undefined ? '' : `${aim}x`,
      ratio === undefined ? '' : ratio >= aim ? 'reached' : 'missed',
      count(ours),
      theirs === undefined ? '' : count(theirs),
      unit,
    ]
  })
  console.log()
  printTable(['', peer === undefined ? '' : `${own} / ${peer}`, 'aim', '', own, peer ?? '', ''], rows)
}

await main()
