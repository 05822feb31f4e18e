/**
 * `npm run bench:views`: views of this server beside those of pouchdb-server, on the same documents in one run. An index
 * is built once on each, since that takes the peer minutes; all else is asked of the two in turns. Every answer is
 * checked.
 */
import { BenchDatabase, expectStatus, member, parsed, rowsIn, savedIn } from './bench-database.ts'
import { median, percentile } from './comparison.ts'
import { DOCUMENT_BYTES, DOCUMENTS, FIRST_NUMBER, IS_ALONE, ROUND_MS, ROUNDS, tell } from './filled-databases.ts'
import { HttpConnection } from './http-connection.ts'
import { bareIsolateMs } from './limits.ts'
import { drive, type Load } from './load.ts'
import { machineFacts } from './machine.ts'
import { count, printTable } from './report.ts'
import { documentId, documentMembers } from './sample-documents.ts'
import { type RunningServer, startPouchdbServer, startSettle } from './servers.ts'

const CHANGED = 1000
const GROUPS = 10
const MANY_GROUPS = 100
const SHORT_ROWS = 10
const BUILD_LIMIT = 2.5
const DEEP_SKIP = Math.min(100_000, DOCUMENTS)

/** Two rows a document: one by its number, one in a group with others. The comment makes it another function. */
function mapFunction(comment: string): string {
  return `function (doc) { /* ${comment} */ emit(["number", doc.number], 1); emit(["group", doc.number % ${GROUPS}, doc.number], 2) }`
}

interface Finding {
  readonly title: string
  readonly unit: 'documents/s' | 'rows/s' | 'requests/s' | 'ms'
  /** How many times as good as the peer. */
  readonly aim?: number
  /** One a server. */
  readonly figures: readonly number[]
}

async function main(): Promise<void> {
  const facts = machineFacts()
  const servers: RunningServer[] = [await startSettle()]
  if (!IS_ALONE) servers.push(await startPouchdbServer())
  const databases = servers.map(({ url }) => new BenchDatabase(url, 'views'))
  for (const [i, database] of databases.entries()) {
    tell(`${count(DOCUMENTS)} documents for ${servers[i]?.name}`)
    await database.create()
    await database.fill(DOCUMENTS, DOCUMENT_BYTES)
    await putDesign(database, 'first')
    await putGroupedDesign(database)
  }
  tell('a bare isolate')
  const bareMs = await bareIsolateMs(DOCUMENTS, DOCUMENT_BYTES, mapFunction('first'))
  const building = await inTurns('cold build, two rows a document', 'documents/s', databases, coldBuild, {
    rounds: 1,
    aim: 60,
  })
  const findings: Finding[] = [
    building,
    await inTurns(`update after ${count(CHANGED)} edits`, 'documents/s', databases, updateAfterEdits, { aim: 20 }),
    await inTurns('scan of all rows', 'rows/s', databases, scan, { aim: 20 }),
    await inTurns('one key of many, 32 connections', 'requests/s', databases, lookUps, { aim: 20 }),
    await inTurns('1,000 keys in one request', 'rows/s', databases, manyKeys),
    await inTurns('group_level=2, ten groups', 'ms', databases, groups),
    await inTurns(`group_level=1, ${MANY_GROUPS} groups`, 'ms', databases, manyGroups),
    await inTurns('reduce of ten rows, 32 connections', 'requests/s', databases, shortReduces),
    await inTurns('reduce of all rows', 'ms', databases, wholeReduce),
    await inTurns('reduce of half the rows', 'ms', databases, halfReduce),
    await inTurns(`skip=${count(DEEP_SKIP)}`, 'ms', databases, deepSkip),
    await inTurns('map view from the PUT of its design document', 'documents/s', databases, freshView),
    await inTurns(`query after ${count(CHANGED)} new documents`, 'documents/s', databases, queryAfterNew),
    await inTurns('GET of a document, p99, nothing else', 'ms', databases, idleReads, { rounds: 1 }),
    await inTurns('GET of a document, p99, during a build', 'ms', databases, readsDuringBuild, { rounds: 1 }),
  ]
  await Promise.all(servers.map((server) => server.process?.stop()))
  report(findings, servers)
  console.log()
  reportLimit(building, bareMs)
  for (const fact of facts) console.log(fact)
}

async function inTurns(
  title: string,
  unit: Finding['unit'],
  databases: readonly BenchDatabase[],
  measure: (database: BenchDatabase, round: number) => Promise<number>,
  { rounds = ROUNDS, aim }: { rounds?: number; aim?: number } = {},
): Promise<Finding> {
  tell(title)
  const figures: number[][] = databases.map(() => [])
  for (let round = 0; round < rounds; round++) {
    for (const [i, database] of databases.entries()) figures[i]?.push(await measure(database, round))
  }
  tell(`  ${figures.map((each) => count(median(each))).join(' against ')} ${unit}`)
  return { title, unit, figures: figures.map(median), ...(aim !== undefined && { aim }) }
}

function report(findings: readonly Finding[], servers: readonly RunningServer[]): void {
  const [own = '', peer] = servers.map(({ name }) => name)
  const rows = findings.map(({ title, unit, aim, figures }) => {
    const [ours = 0, theirs] = figures
    const ratio = theirs === undefined ? undefined : unit === 'ms' ? theirs / ours : ours / theirs
    const isReached = ratio === undefined || aim === undefined ? '' : ratio >= aim ? 'reached' : 'missed'
    return [
      title,
      ratio === undefined ? '' : `${ratio.toPrecision(2)}x`,
      aim === undefined || theirs === undefined ? '' : `${aim}x`,
      isReached,
      ...figures.map(count),
      unit,
    ]
  })
  console.log()
  printTable(
    ['', peer === undefined ? '' : `${own} / ${peer}`, 'aim', '', ...servers.map(({ name }) => name), ''],
    rows,
  )
}

/** What the build of an index does beyond the least that must be done: rows sorted, reduced, on disk. */
function reportLimit({ figures: [rate = 0] }: Finding, bareMs: number): void {
  const buildMs = (DOCUMENTS / rate) * 1000
  console.log(
    `the cold build takes ${(buildMs / bareMs).toPrecision(2)} times as long (aim ${BUILD_LIMIT}) as JSON.parse and the map ` +
      `function in a bare isolate on one core: ${count(buildMs)} ms against ${count(bareMs)} ms`,
  )
}

async function putDesign(database: BenchDatabase, name: string): Promise<void> {
  const design = JSON.stringify({ views: { rows: { map: mapFunction(name), reduce: '_sum' } } })
  await database.call('PUT', `/_design/${name}`, 201, design)
}

/** One row a document, in one of a hundred groups. */
async function putGroupedDesign(database: BenchDatabase): Promise<void> {
  const map = `function (doc) { emit([doc.number % ${MANY_GROUPS}, doc.number], 1) }`
  const design = JSON.stringify({ views: { rows: { map, reduce: '_sum' } } })
  await database.call('PUT', '/_design/grouped', 201, design)
}

/** The time of one request whose answer is right. */
async function timed(database: BenchDatabase, path: string, check: (answer: unknown) => void): Promise<number> {
  const connection = await HttpConnection.open(database.server)
  try {
    const start = performance.now()
    const reply = await connection.exchange(database.request('GET', path))
    const elapsedMs = performance.now() - start
    check(parsed(reply, 200))
    return elapsedMs
  } finally {
    connection.destroy()
  }
}

async function coldBuild(database: BenchDatabase): Promise<number> {
  const elapsedMs = await timed(database, '/_design/first/_view/rows?reduce=false&limit=1', expectAllRows)
  return DOCUMENTS / (elapsedMs / 1000)
}

async function updateAfterEdits(database: BenchDatabase, round: number): Promise<number> {
  await edit(database, round)
  const elapsedMs = await timed(database, '/_design/first/_view/rows?reduce=false&limit=1', expectAllRows)
  return CHANGED / (elapsedMs / 1000)
}

/** Gives documents, spread over all of them, other numbers. */
async function edit(database: BenchDatabase, round: number): Promise<void> {
  const numbers = Array.from({ length: CHANGED }, (_, i) => Math.floor((i * DOCUMENTS) / CHANGED))
  const keys = JSON.stringify({ keys: numbers.map(documentId) })
  const rows = rowsIn(await database.call('POST', '/_all_docs', 200, keys), CHANGED, () => true)
  const docs = rows.map((row, i) => {
    const rev = String(member(member(row, 'value'), 'rev'))
    const members = documentMembers((numbers[i] ?? 0) + (round + 1) * 10 * DOCUMENTS, DOCUMENT_BYTES)
    return `{"_id":"${String(member(row, 'id'))}","_rev":"${rev}",${members}}`
  })
  await database.call('POST', '/_bulk_docs', 201, `{"docs":[${docs.join(',')}]}`)
}

function expectAllRows(answer: unknown): void {
  const total = member(answer, 'total_rows')
  if (total !== 2 * DOCUMENTS) throw new Error(`${2 * DOCUMENTS} rows should be there, but there are ${total}.`)
}

async function scan(database: BenchDatabase): Promise<number> {
  const elapsedMs = await timed(database, '/_design/first/_view/rows?reduce=false', (answer) => {
    rowsIn(answer, 2 * DOCUMENTS, (row) => typeof member(row, 'id') === 'string')
  })
  return (2 * DOCUMENTS) / (elapsedMs / 1000)
}

async function lookUps(database: BenchDatabase): Promise<number> {
  const load: Load = {
    connections: 32,
    next: () => {
      const number = FIRST_NUMBER + unedited()
      const path = `/_design/first/_view/rows?reduce=false&key=["number",${number}]`
      return {
        request: database.request('GET', path),
        check: (reply) => {
          expectStatus(reply, 200)
          if (!reply.body.includes(`"key":["number",${number}]`)) throw new Error('A row that is there was not found.')
          return 1
        },
      }
    },
  }
  return (await drive(database.server, load, ROUND_MS)).unitsPerSecond
}

/** The number of a document that keeps it. */
function unedited(): number {
  const step = DOCUMENTS / CHANGED
  return Math.floor((Math.floor(Math.random() * CHANGED) + 0.5) * step)
}

async function manyKeys(database: BenchDatabase): Promise<number> {
  const load: Load = {
    connections: 1,
    next: () => {
      const keys = Array.from({ length: 1000 }, () => ['number', FIRST_NUMBER + unedited()])
      return {
        request: database.request('POST', '/_design/first/_view/rows?reduce=false', JSON.stringify({ keys })),
        check: (reply) => rowsIn(parsed(reply, 200), keys.length, () => true).length,
      }
    },
  }
  return (await drive(database.server, load, ROUND_MS)).unitsPerSecond
}

/** The time that such a request takes, asked for a while or until it is known well enough. */
async function usualTime(database: BenchDatabase, path: string, check: (answer: unknown) => void): Promise<number> {
  const times: number[] = []
  const end = performance.now() + ROUND_MS
  while (times.length === 0 || (times.length < 50 && performance.now() < end)) {
    times.push(await timed(database, path, check))
  }
  return median(times)
}

async function groups(database: BenchDatabase): Promise<number> {
  const path = '/_design/first/_view/rows?group_level=2&startkey=["group"]&endkey=["group",{}]'
  return usualTime(database, path, (answer) => {
    const rows = rowsIn(answer, GROUPS, (row) => Number(member(row, 'value')) > 0)
    const sum = rows.reduce((total: number, row) => total + Number(member(row, 'value')), 0)
    if (sum !== 2 * DOCUMENTS) throw new Error(`The groups add up to ${sum}.`)
  })
}

async function manyGroups(database: BenchDatabase): Promise<number> {
  // The index is built here; that is another figure.
  await timed(database, '/_design/grouped/_view/rows', () => {})
  return usualTime(database, '/_design/grouped/_view/rows?group_level=1', (answer) => {
    const rows = rowsIn(answer, MANY_GROUPS, (row) => Number(member(row, 'value')) > 0)
    const sum = rows.reduce((total: number, row) => total + Number(member(row, 'value')), 0)
    if (sum !== DOCUMENTS) throw new Error(`The groups add up to ${sum}.`)
  })
}

/** Documents were edited meanwhile: a range has its rows, or somewhat fewer. */
async function shortReduces(database: BenchDatabase): Promise<number> {
  const load: Load = {
    connections: 32,
    next: () => {
      const start = FIRST_NUMBER + Math.floor(Math.random() * (DOCUMENTS - SHORT_ROWS))
      const range = `startkey=["number",${start}]&endkey=["number",${start + SHORT_ROWS - 1}]`
      return {
        request: database.request('GET', `/_design/first/_view/rows?${range}`),
        check: (reply) => {
          const [row] = rowsIn(parsed(reply, 200), 1, () => true)
          const sum = Number(member(row, 'value'))
          if (!(sum > 0 && sum <= SHORT_ROWS)) throw new Error(`${SHORT_ROWS} rows add up to ${sum}.`)
          return 1
        },
      }
    },
  }
  return (await drive(database.server, load, ROUND_MS)).unitsPerSecond
}

/** From the design document to the first answer; there were no other views of that source. */
async function freshView(database: BenchDatabase, round: number): Promise<number> {
  const map = `function (doc) { /* fresh ${round} */ emit(doc.number, null) }`
  const start = performance.now()
  await database.call('PUT', `/_design/fresh-${round}`, 201, JSON.stringify({ views: { rows: { map } } }))
  await timed(database, `/_design/fresh-${round}/_view/rows?limit=1`, (answer) => {
    if (Number(member(answer, 'total_rows')) < DOCUMENTS) throw new Error('Rows are missing.')
  })
  return DOCUMENTS / ((performance.now() - start) / 1000)
}

/** The new ones are removed again: other workloads count what is there. */
async function queryAfterNew(database: BenchDatabase, round: number): Promise<number> {
  const ids = Array.from({ length: CHANGED }, (_, i) => `new-${round}-${i}`)
  const docs = ids.map((id, i) => `{"_id":"${id}",${documentMembers(i, DOCUMENT_BYTES)}}`)
  const saved = await database.call('POST', '/_bulk_docs', 201, `{"docs":[${docs.join(',')}]}`)
  const elapsedMs = await timed(database, '/_design/fresh-0/_view/rows?limit=1', (answer) => {
    const total = member(answer, 'total_rows')
    if (total !== DOCUMENTS + CHANGED) throw new Error(`There are ${total} rows.`)
  })
  const removed = savedIn(saved, CHANGED).map(({ id, revision }) => ({ _id: id, _rev: revision, _deleted: true }))
  await database.call('POST', '/_bulk_docs', 201, JSON.stringify({ docs: removed }))
  return CHANGED / (elapsedMs / 1000)
}

async function wholeReduce(database: BenchDatabase): Promise<number> {
  return usualTime(database, '/_design/first/_view/rows', (answer) => {
    const [row] = rowsIn(answer, 1, () => true)
    if (member(row, 'value') !== 3 * DOCUMENTS) throw new Error(`All rows add up to ${member(row, 'value')}.`)
  })
}

async function halfReduce(database: BenchDatabase): Promise<number> {
  const end = FIRST_NUMBER + DOCUMENTS / 2
  const path = `/_design/first/_view/rows?startkey=["number",${FIRST_NUMBER}]&endkey=["number",${end}]`
  return usualTime(database, path, (answer) => {
    rowsIn(answer, 1, (row) => Number(member(row, 'value')) > DOCUMENTS / 3)
  })
}

async function deepSkip(database: BenchDatabase): Promise<number> {
  const path = `/_design/first/_view/rows?reduce=false&skip=${DEEP_SKIP}&limit=10`
  return usualTime(database, path, (answer) => {
    rowsIn(answer, 10, () => true)
    if (member(answer, 'offset') !== DEEP_SKIP) throw new Error(`The offset is ${member(answer, 'offset')}.`)
  })
}

/** How long reads of single documents take, one after the other, until told to end. */
async function readLatencies(database: BenchDatabase, isOver: () => boolean): Promise<number[]> {
  const connection = await HttpConnection.open(database.server)
  const latencies: number[] = []
  try {
    while (!isOver()) {
      const path = `/${documentId(Math.floor(Math.random() * DOCUMENTS))}`
      const start = performance.now()
      expectStatus(await connection.exchange(database.request('GET', path)), 200)
      latencies.push(performance.now() - start)
    }
  } finally {
    connection.destroy()
  }
  return latencies
}

async function idleReads(database: BenchDatabase): Promise<number> {
  const end = performance.now() + ROUND_MS
  return percentile(await readLatencies(database, () => performance.now() > end), 0.99)
}

async function readsDuringBuild(database: BenchDatabase): Promise<number> {
  await putDesign(database, 'second')
  let isBuilt = false
  const building = timed(database, '/_design/second/_view/rows?reduce=false&limit=1', expectAllRows).finally(() => {
    isBuilt = true
  })
  const latencies = await readLatencies(database, () => isBuilt)
  await building
  return percentile(latencies, 0.99)
}

main().then(
  () => process.exit(),
  (error: unknown) => {
    process.stderr.write(`bench: ${error instanceof Error ? error.message : error}\n`)
    process.exit(1)
  },
)
