/**
 * `npm run bench:million`: does a database of a million documents behave as one of ten thousand does? Cost must follow
 * the answer and not the database, memory must stay flat while all of it is streamed, and a client that goes away must
 * stop the work. Ends with 1 when one of these does not hold.
 */
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { BenchDatabase, member, parsed, rowsIn, savedIn } from './bench-database.ts'
import { temporaryFolder } from './child-process.ts'
import { median } from './comparison.ts'
import { HttpConnection } from './http-connection.ts'
import { drive, type Load } from './load.ts'
import { machineFacts } from './machine.ts'
import { memoryUse, processorSeconds } from './process-use.ts'
import { count, percent, printTable } from './report.ts'
import { bulkBody, documentId } from './sample-documents.ts'
import { startSettle } from './servers.ts'
import { getDocuments, putDocuments } from './workloads.ts'

interface Finding {
  readonly title: string
  readonly figure: string
  readonly aim: string
  readonly holds: boolean
}

const { values: flags } = parseArgs({
  options: { documents: { type: 'string', default: '1000000' }, seconds: { type: 'string', default: '2' } },
})
const LARGE = Number(flags.documents)
const SMALL = 10_000
const ROUND_MS = Number(flags.seconds) * 1000
const ROUNDS = 5
const LARGE_NAME = 'million'
const DOCUMENT_BYTES = 100
const BATCH = 2000
const PAGE_ROWS = 20
const DEEP_SKIP = Math.floor(LARGE * 0.9)

/** The least share of the rate at ten thousand documents that is kept at a million. */
const KEPT_SHARE = 0.7
const SKIP_FACTOR = 3
/** What the process may allocate on top while it streams: room for its garbage, and half of what the answer has. */
const STREAMING_BYTES = 150e6
/** Of a core, in the second after a client has gone. */
const IDLE_SHARE = 0.2

async function main(): Promise<void> {
  const facts = machineFacts()
  const dir = join(temporaryFolder(), 'data')
  const findings = [...(await whileLoading(dir)), ...(await whileStreaming(dir))]
  console.log()
  printTable(
    [`${count(LARGE)} documents`, 'found', 'aim', ''],
    findings.map(({ title, figure, aim, holds }) => [title, figure, aim, aim && (holds ? 'reached' : 'missed')]),
  )
  console.log()
  for (const fact of facts) console.log(fact)
  if (findings.some(({ holds }) => !holds)) process.exitCode = 1
}

async function whileLoading(dir: string): Promise<Finding[]> {
  const settle = await startSettle({ dir })
  const small = new BenchDatabase(settle.url, 'ten-thousand')
  const large = new BenchDatabase(settle.url, LARGE_NAME)
  await small.create()
  await large.create()
  await fill(small, SMALL)
  process.stderr.write(`loading ${count(LARGE)} documents…\n`)
  const seconds = await fill(large, LARGE)
  const findings = [
    { title: 'loaded with _bulk_docs', figure: `${count(LARGE / seconds)} documents/s`, aim: '', holds: true },
    await keptRate('GET, 32 connections', [
      [small, await getDocuments(small, { connections: 32, documents: SMALL })],
      [large, await getDocuments(large, { connections: 32, documents: LARGE })],
    ]),
    await keptRate('PUT, 32 connections', [
      [small, await putDocuments(small, { connections: 32, firstNumber: SMALL })],
      [large, await putDocuments(large, { connections: 32, firstNumber: LARGE })],
    ]),
    await deepSkip(large),
  ]
  await settle.process.stop()
  return findings
}

/** In a new process: one that has loaded the documents has memory to spare, and would hide what it takes to send them. */
async function whileStreaming(dir: string): Promise<Finding[]> {
  const settle = await startSettle({ dir })
  const large = new BenchDatabase(settle.url, LARGE_NAME)
  const findings = [...(await streaming(large, settle.process.pid)), await abandoned(large, settle.process.pid)]
  await settle.process.stop()
  return findings
}

/** The seconds it took the server. Two connections, so that it need not wait for the generator. */
async function fill(database: BenchDatabase, documents: number): Promise<number> {
  const start = performance.now()
  let next = 0
  const loader = async () => {
    const connection = await HttpConnection.open(database.server)
    while (next < documents) {
      const first = next
      next += BATCH
      const body = bulkBody(first, Math.min(BATCH, documents - first), DOCUMENT_BYTES)
      const reply = await connection.exchange(database.request('POST', '/_bulk_docs', body))
      savedIn(parsed(reply, 201), Math.min(BATCH, documents - first))
    }
    connection.destroy()
  }
  await Promise.all([loader(), loader()])
  const seconds = (performance.now() - start) / 1000
  await database.expectCount(documents)
  return seconds
}

async function keptRate(title: string, loads: [[BenchDatabase, Load], [BenchDatabase, Load]]): Promise<Finding> {
  process.stderr.write(`${title}…\n`)
  const [small, large] = await alternate(loads)
  const share = median(large.map((rate, round) => rate / small[round]!))
  return {
    title: `${title}, beside ${count(SMALL)} documents`,
    figure: `${percent(share)} (${count(median(large))}/s, ${count(median(small))}/s)`,
    aim: `>= ${percent(KEPT_SHARE)}`,
    holds: share >= KEPT_SHARE,
  }
}

async function deepSkip(database: BenchDatabase): Promise<Finding> {
  process.stderr.write('skip…\n')
  const page = (skip: number): [BenchDatabase, Load] => {
    const request = database.request('GET', `/_all_docs?limit=${PAGE_ROWS}&skip=${skip}`)
    const first = JSON.stringify(documentId(skip))
    const check: ReturnType<Load['next']>['check'] = (reply) => {
      rowsIn(parsed(reply, 200), PAGE_ROWS, () => true)
      if (!reply.body.includes(first)) throw new Error(`skip=${skip} does not begin at ${first}.`)
      return 1
    }
    return [database, { connections: 1, next: () => ({ request, check }) }]
  }
  const [near, deep] = await alternate([page(0), page(DEEP_SKIP)])
  const factor = median(near.map((rate, round) => rate / deep[round]!))
  return {
    title: `_all_docs?limit=${PAGE_ROWS}, skip=${DEEP_SKIP} beside skip=0`,
    figure: `${factor.toFixed(2)} times the time (${(1000 / median(deep)).toFixed(2)} ms, ${(1000 / median(near)).toFixed(2)} ms)`,
    aim: `<= ${SKIP_FACTOR} times`,
    holds: factor <= SKIP_FACTOR,
  }
}

async function streaming(database: BenchDatabase, pid: number): Promise<Finding[]> {
  process.stderr.write('streaming the whole database…\n')
  const expected = Number(member(await database.call('GET', '', 200), 'doc_count'))
  await database.call('GET', '/_all_docs?include_docs=true&limit=10000', 200)
  const before = memoryUse(pid)
  let peakOwn = before.ownBytes
  let peakResident = before.residentBytes
  const sampler = setInterval(() => {
    const { ownBytes, residentBytes } = memoryUse(pid)
    peakOwn = Math.max(peakOwn, ownBytes)
    peakResident = Math.max(peakResident, residentBytes)
  }, 50)
  let documents = 0
  let bytes = 0
  const counter = new OccurrenceCounter('"_rev":"')
  const connection = await HttpConnection.open(database.server)
  const start = performance.now()
  const request = database.request('GET', '/_all_docs?include_docs=true')
  const { status } = await connection.exchange(request, (piece) => {
    documents += counter.countIn(piece)
    bytes += piece.length
  })
  const seconds = (performance.now() - start) / 1000
  clearInterval(sampler)
  connection.destroy()
  const grown = peakOwn - before.ownBytes
  const title = '_all_docs?include_docs=true, all of it'
  return [
    {
      title,
      figure: `${count(documents)} documents, ${count(documents / seconds)}/s, ${megabytes(bytes)}`,
      aim: `${count(expected)} documents`,
      holds: status === 200 && documents === expected,
    },
    {
      title: `${title}: memory allocated on top`,
      figure: `${megabytes(grown)} (${megabytes(peakOwn)} at most)`,
      aim: `<= ${megabytes(STREAMING_BYTES)}`,
      holds: grown <= STREAMING_BYTES,
    },
    {
      title: `${title}: resident, pages of the file included`,
      figure: `${megabytes(before.residentBytes)} before, ${megabytes(peakResident)} at most`,
      aim: '',
      holds: true,
    },
  ]
}

/** Leaves after the first pieces of a long answer and looks whether the server goes on working for nobody. */
async function abandoned(database: BenchDatabase, pid: number): Promise<Finding> {
  process.stderr.write('a client that goes away…\n')
  const connection = await HttpConnection.open(database.server)
  const { promise: begun, resolve: begin } = Promise.withResolvers<void>()
  let bytes = 0
  const consume = (piece: Buffer) => {
    bytes += piece.length
    if (bytes > 1e6) begin()
  }
  const whole = connection.exchange(database.request('GET', '/_all_docs?include_docs=true'), consume)
  await Promise.race([begun, whole])
  connection.destroy()
  await delay(200)
  const before = processorSeconds(pid)
  await delay(1000)
  const used = processorSeconds(pid) - before
  return {
    title: 'processor use in the second after a client has gone',
    figure: `${percent(used)} of a core`,
    aim: `<= ${percent(IDLE_SHARE)}`,
    holds: bytes > 1e6 && used <= IDLE_SHARE,
  }
}

/** Takes turns, so that what else the machine does falls on both alike. Gives the rates of each, round by round. */
async function alternate(loads: [[BenchDatabase, Load], [BenchDatabase, Load]]): Promise<[number[], number[]]> {
  const rates: [number[], number[]] = [[], []]
  for (let round = -1; round < ROUNDS; round++) {
    for (const [i, [{ server }, load]] of loads.entries()) {
      const { unitsPerSecond } = await drive(server, load, ROUND_MS)
      if (round >= 0) rates[i]!.push(unitsPerSecond)
    }
  }
  return rates
}

/** Counts a text in a stream of pieces, also where it lies across two of them. */
class OccurrenceCounter {
  readonly #text: string
  #tail = Buffer.alloc(0)

  constructor(text: string) {
    this.#text = text
  }

  countIn(piece: Buffer): number {
    const input = Buffer.concat([this.#tail, piece])
    let found = 0
    for (let at = input.indexOf(this.#text); at >= 0; at = input.indexOf(this.#text, at + 1)) found++
    this.#tail = input.subarray(Math.max(0, input.length - this.#text.length + 1))
    return found
  }
}

function megabytes(bytes: number): string {
  return `${Math.round(bytes / 1e6)} MB`
}

main().then(
  () => process.exit(),
  (error: unknown) => {
    process.stderr.write(`bench: ${error instanceof Error ? error.message : error}\n`)
    process.exit(1)
  },
)
