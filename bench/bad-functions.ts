/**
 * `npm run bench:bad-functions`: how long others wait while functions misbehave. A plain GET and a call of a good show, one
 * after the other on a connection each: first on an idle server, then while eight requests for endless loops and for all
 * memory there is are under way without a pause in another database, then while 60 endless loops of ten databases are.
 */
import { BenchDatabase, expectStatus } from './bench-database.ts'
import { median, percentile } from './comparison.ts'
import { HttpConnection, requestText, type ServerAddress } from './http-connection.ts'
import { machineFacts } from './machine.ts'
import { printTable } from './report.ts'
import { documentId } from './sample-documents.ts'
import { startSettle } from './servers.ts'

const LOAD_MS = 15_000
const WARMING_MS = 1000
const TIMEOUT_MS = 1000
const CROWD_DATABASES = 10
const CROWD_LOOPS_A_DATABASE = 6
/** As it is unless it is set. */
const CROWD_TIMEOUT_MS = 5000

const BAD = {
  loop: 'function() { while (true); }',
  promises: '(function() { (function f() { return Promise.resolve().then(f) })() })',
  bomb: 'function() { var a = []; while (true) a.push(new Array(1000).fill(a.length)) }',
  buffers: 'function() { var a = []; while (true) a.push(new Uint8Array(1e7).fill(1)) }',
  text: 'function() { var a = []; while (true) a.push("x".padEnd(4e8, "ab").indexOf("ba", 3e8)) }',
  expression: 'function() { return /^(a+)+$/.test("a".repeat(50) + "b") + "" }',
  array: 'function() { new Array(1e9).fill(0) }',
  getter: 'function() { return { get json() { while (true); } } }',
}

interface Latencies {
  readonly document: readonly number[]
  readonly show: readonly number[]
}

const facts = machineFacts()
const settle = await startSettle()
try {
  const peace = await database('peace', { fine: 'function(doc, req) { return doc._id }' })
  const trouble = await database('trouble', BAD)
  await setTimeLimit(trouble.server, TIMEOUT_MS)
  await measure(peace, WARMING_MS)
  const alone = await measure(peace, LOAD_MS / 3)
  const stop = makeTrouble([trouble], Object.keys(BAD))
  const beside = await measure(peace, LOAD_MS)
  const ended = stop()
  const crowd: BenchDatabase[] = []
  for (let i = 0; i < CROWD_DATABASES; i++) crowd.push(await database(`crowd-${i}`, { loop: BAD.loop }))
  await setTimeLimit(trouble.server, CROWD_TIMEOUT_MS)
  const stopCrowd = makeTrouble(crowd, Array(CROWD_LOOPS_A_DATABASE).fill('loop'))
  const besideCrowd = await measure(peace, 2 * LOAD_MS)
  const endedOfCrowd = stopCrowd()
  printTable(
    ['milliseconds until answered', 'requests', 'median', '99 %', 'longest'],
    [
      row('GET a document, idle server', alone.document),
      row('GET a document, eight bad functions', beside.document),
      row('GET a document, 60 loops of ten databases', besideCrowd.document),
      row('a good show, idle server', alone.show),
      row('a good show, eight bad functions', beside.show),
      row('a good show, 60 loops of ten databases', besideCrowd.show),
    ],
  )
  console.log()
  console.log(`${ended} bad requests got their error meanwhile; the time limit of functions was ${TIMEOUT_MS} ms`)
  console.log(`${endedOfCrowd} loops of the ten databases got theirs; the time limit was ${CROWD_TIMEOUT_MS} ms`)
} finally {
  await settle.process.stop()
}
for (const fact of facts) console.log(fact)

function row(name: string, latencies: readonly number[]): string[] {
  const figures = [median(latencies), percentile(latencies, 0.99), Math.max(...latencies)]
  return [name, String(latencies.length), ...figures.map((ms) => ms.toFixed(2))]
}

async function database(name: string, shows: object): Promise<BenchDatabase> {
  const created = new BenchDatabase(settle.url, name)
  await created.create()
  await created.fill(10, 1024)
  await created.call('PUT', '/_design/bench', 201, JSON.stringify({ shows }))
  return created
}

async function setTimeLimit(server: ServerAddress, limitMs: number): Promise<void> {
  const connection = await HttpConnection.open(server)
  const path = '/_config/service/os_process_timeout'
  expectStatus(await connection.exchange(requestText(server, 'PUT', path, `"${limitMs}"`)), 200)
  connection.destroy()
}

/** Calls each bad function again as soon as it has failed. What is given back ends that, and tells how often they failed. */
function makeTrouble(databases: readonly BenchDatabase[], shows: readonly string[]): () => number {
  let failures = 0
  let isOver = false
  const connections: HttpConnection[] = []
  const lane = async (trouble: BenchDatabase, name: string): Promise<void> => {
    const connection = await HttpConnection.open(trouble.server)
    connections.push(connection)
    const request = trouble.request('GET', `/_design/bench/_show/${name}`)
    for (; !isOver; failures++) expectStatus(await connection.exchange(request), 500)
  }
  for (const each of databases) for (const name of shows) void lane(each, name)
  return () => {
    isOver = true
    for (const connection of connections) connection.destroy()
    return failures
  }
}

async function measure(peace: BenchDatabase, forMs: number): Promise<Latencies> {
  const end = performance.now() + forMs
  const lane = async (path: string): Promise<number[]> => {
    const connection = await HttpConnection.open(peace.server)
    const request = peace.request('GET', path)
    const latencies: number[] = []
    while (performance.now() < end) {
      const start = performance.now()
      expectStatus(await connection.exchange(request), 200)
      latencies.push(performance.now() - start)
    }
    connection.destroy()
    return latencies
  }
  const [document, show] = await Promise.all([
    lane(`/${documentId(0)}`),
    lane(`/_design/bench/_show/fine/${documentId(0)}`),
  ])
  return { document, show }
}
