/**
 * Two servers over one PostgreSQL: databases are written, compacted, deleted and created again while clients read them in every
 * way. Some stop in the middle of a reply, some leave at any moment. What is left when all of them are gone is counted.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { onTestFinished } from 'vitest'
import { Client, TestDatabase } from '../support/client.ts'
import { TestPostgres } from '../support/postgres.ts'
import { readTransactions } from '../support/read-transactions.ts'
import { startService } from '../support/service.ts'
import { SlowReader } from '../support/slow-reader.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { until } from '../support/until.ts'

export interface ReadRounds {
  readonly seconds: number
  readonly readConnections?: number
  /** Whether PostgreSQL ends sessions now and then. */
  readonly endsSessions?: boolean
}

export interface LeftBehind {
  /** Transactions that were begun to read and not left. */
  readonly transactions: number
  /** As PostgreSQL sees them. */
  readonly idleInTransaction: string
  /** Rows that belong to nothing and that nobody will remove. */
  readonly rows: string
  /** Replies with an error of the server. */
  readonly failures: readonly string[]
}

const NAMES = ['one', 'two', 'three']
const READERS = 16
const MAP = 'function (doc) { if (doc.key) emit(doc.key, null) }'

/** A reading, with its body where it is posted. */
const READINGS: readonly (readonly [path: string, body?: object])[] = [
  ['_design/d/_view/keys?include_docs=true'],
  ['_design/d/_view/keys?include_docs=true&attachments=true'],
  ['_design/d/_view/keys?include_docs=true&stale=ok'],
  ['_design/d/_view/keys?include_docs=true&stale=update_after&limit=5'],
  ['_design/d/_view/keys/queries', { queries: [{ include_docs: true }, { descending: true, include_docs: true }] }],
  ['_design/d/_list/ids/keys?include_docs=true'],
  ['_all_docs?include_docs=true&attachments=true'],
  ['_changes?include_docs=true&attachments=true'],
  ['_find', { selector: { key: { $gt: '' } }, limit: 1000 }],
  ['_find', { selector: { fill: { $gt: '' } }, limit: 1000, count: true }],
]

export async function playReaders(rounds: ReadRounds): Promise<LeftBehind> {
  const postgres = await TestPostgres.start()
  onTestFinished(() => postgres.remove())
  const transactions = readTransactions()
  const engine = postgres.address('rounds')
  const { readConnections } = rounds
  const settings = readConnections ? { service: { engine_read_connections: String(readConnections) } } : {}
  const start = async () => startService({ dir: await temporaryFolder(), engine, settings })
  const clients = [await start(), await start()].map(({ url }) => new Client(url))
  const failures: string[] = []
  const deadline = performance.now() + 1000 * rounds.seconds
  const repeat = async (work: () => Promise<void>) => {
    // What is cut off, since the client left or the database was deleted, is not of interest.
    while (performance.now() < deadline) await work().catch(() => pause(1))
  }
  const any = () => new TestDatabase(oneOf(clients), oneOf(NAMES))
  for (const name of NAMES) await create(new TestDatabase(clients[0]!, name))
  await Promise.all([
    ...Array.from({ length: READERS }, () => repeat(() => read(any(), failures))),
    repeat(() => stall(any())),
    repeat(() => stall(any())),
    repeat(() => write(any())),
    repeat(async () => {
      await any().post('_compact', {})
      await pause(50)
    }),
    ...NAMES.map((name) =>
      repeat(async () => {
        await new TestDatabase(oneOf(clients), name).delete('')
        await create(new TestDatabase(oneOf(clients), name))
      }),
    ),
    ...(rounds.endsSessions ? [repeat(() => endSomeSession(postgres))] : []),
  ])
  for (const client of clients) client.close()
  const count = (what: string) => postgres.query(`SELECT count(*) FROM ${what}`)
  const idle = () => count("pg_stat_activity WHERE state LIKE 'idle in transaction%'")
  await until(() => transactions.now === 0 && idle() === '0', QUIET_MS).catch(() => {})
  return {
    transactions: transactions.now,
    idleInTransaction: idle(),
    rows: count(
      'rounds.rows WHERE space NOT IN (SELECT space FROM rounds.stores UNION SELECT space FROM rounds.garbage)',
    ),
    failures,
  }
}

/** A reply that nobody reads any more ends sooner. */
const QUIET_MS = 10_000

async function create(database: TestDatabase): Promise<void> {
  await database.request('PUT')
  const lists = { ids: 'function () { var row; while ((row = getRow())) send(row.id) }' }
  await database.put('_design/d', { views: { keys: { map: MAP } }, lists })
  await database.post('_index', { index: { fields: ['key'] }, name: 'keys', ddoc: 'keys' })
  await database.post('_bulk_docs', { docs: Array.from({ length: 30 }, (_, number) => document(number)) })
}

function document(number: number) {
  const data = Buffer.alloc(20_000, number).toString('base64')
  return {
    _id: `doc-${number}`,
    key: String(number),
    fill: 'x'.repeat(5000),
    ...(number % 5 === 0 && { _attachments: { a: { content_type: 'text/plain', data } } }),
  }
}

async function write(database: TestDatabase): Promise<void> {
  const number = Math.floor(30 * Math.random())
  const { _rev } = (await database.get(`doc-${number}`)).as<{ _rev?: string }>()
  await database.put(`doc-${number}`, { ...document(number), ...(_rev && { _rev }) })
}

/** To the end, or not. */
async function read(database: TestDatabase, failures: string[]): Promise<void> {
  const [path, body] = oneOf(READINGS)
  const signal = Math.random() < 0.3 ? AbortSignal.timeout(Math.ceil(60 * Math.random())) : null
  const posted = { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) }
  const reply = await fetch(`${database.url}/${path}`, { signal, ...(body && posted) })
  const text = await reply.text()
  // 503 is an answer where sessions are ended.
  if (reply.status >= 500 && reply.status !== 503) failures.push(`${reply.status} ${path} ${text}`)
}

async function stall({ client, name }: TestDatabase): Promise<void> {
  const reader = new SlowReader(client.url, `/${name}/${oneOf(READINGS)[0]}`)
  await reader.take(Math.ceil(20_000 * Math.random()))
  await pause(1500 * Math.random())
  reader.leave()
}

async function endSomeSession(postgres: TestPostgres): Promise<void> {
  await pause(1000 * Math.random())
  const sessions = "SELECT pid FROM pg_stat_activity WHERE application_name = 'settle' ORDER BY random() LIMIT 2"
  postgres.query(`SELECT pg_terminate_backend(pid) FROM (${sessions}) AS some`)
}

function oneOf<T>(items: readonly T[]): T {
  return items[Math.floor(items.length * Math.random())]!
}
