/**
 * User functions: documents mapped a second through the whole path (server, pipe, isolate, sort keys) with one process and
 * with two, beside an isolate that does nothing but parse, map and give text; and what processes and isolates cost.
 * `node --no-node-snapshot bench/functions.ts`
 */
import { readdirSync, readFileSync } from 'node:fs'
import ivm from 'isolated-vm'
import { createFunctions } from '../src/functions/create-functions.ts'
import type { Functions, MapProgram } from '../src/functions/functions.ts'
import { silentLog } from '../src/runtime/log/log.ts'
import { median } from './comparison.ts'
import { machineFacts } from './machine.ts'
import { count, percent, printTable } from './report.ts'
import { documentId, documentMembers } from './sample-documents.ts'

const BATCH = 500
const DOCUMENT_BYTES = 360
const ROUND_MS = 1500
const ROUNDS = 5

const source = 'function (doc) { emit(doc._id, null); emit([doc.type, doc.number], doc.tags) }'

const facts = machineFacts()
const texts = Array.from(
  { length: BATCH },
  (_, number) =>
    `{"_id":"${documentId(number)}","_rev":"1-0123456789abcdef",${documentMembers(number, DOCUMENT_BYTES)}}`,
)
const documents = texts.map((text) => Buffer.from(text))
const program: MapProgram = {
  key: 'bench',
  language: 'javascript',
  library: undefined,
  maps: [{ source, collation: 'unicode' }],
}

/** Documents a second, and microseconds of processor time a document. */
interface Speed {
  readonly rate: number
  readonly processorUs: number
}

const bare = bareIsolate()
const one = sandbox(1)
const two = sandbox(2)
const speeds: { bare: Speed[]; one: Speed[]; two: Speed[] } = { bare: [], one: [], two: [] }
await Promise.all([mapFor(one, 1, 500), mapFor(two, 2, 500)])
for (let round = 0; round < ROUNDS; round++) {
  speeds.bare.push(await measured(async (end) => bare(end)))
  speeds.one.push(await measured((end) => mapUntil(one, 2, end)))
  speeds.two.push(await measured((end) => mapUntil(two, 4, end)))
}
const bareSpeed = middle(speeds.bare)
printTable(
  ['map, two rows a document', 'documents/s', 'of bare', 'processor us a document'],
  [
    ['bare isolate', bareSpeed],
    ['one process', middle(speeds.one)],
    ['two processes', middle(speeds.two)],
  ].map(([name, speed]) => row(name as string, speed as Speed)),
)
await one.close()
await two.close()
console.log()
await processCosts()
console.log()
for (const fact of facts) console.log(fact)

function row(name: string, { rate, processorUs }: Speed): string[] {
  return [name, count(rate), percent(rate / bareSpeed.rate), count(processorUs)]
}

function sandbox(processLimit: number): Functions {
  const settings = { timeoutMs: 5000, reduceLimit: true, processLimit, isolateMemoryMb: 256, processMemoryMb: 1024 }
  return createFunctions({ settings: () => settings, log: silentLog })
}

/** Parses, maps and gives text, as an isolate must; no process, no pipe, no sort keys. */
function bareIsolate(): (end: number) => number {
  const isolate = new ivm.Isolate({ memoryLimit: 256 })
  const call = isolate.createContextSync().evalClosureSync(
    `
    let rows = ''
    const emit = (key, value) => { rows += JSON.stringify(key) + JSON.stringify(value) }
    const map = (${source})
    return (text) => {
      rows = ''
      for (const document of JSON.parse(text)) map(document)
      return rows
    }`,
    [],
    { result: { reference: true } },
  )
  const text = `[${texts}]`
  return (end) => {
    let done = 0
    for (; performance.now() < end; done += BATCH) call.applySync(undefined, [text])
    return done
  }
}

async function mapUntil(functions: Functions, atOnce: number, end: number): Promise<number> {
  let done = 0
  const lane = async () => {
    for (; performance.now() < end; done += BATCH) await functions.map(program, documents, { owner: 'bench' })
  }
  await Promise.all(Array.from({ length: atOnce }, lane))
  return done
}

function mapFor(functions: Functions, atOnce: number, forMs: number): Promise<number> {
  return mapUntil(functions, atOnce, performance.now() + forMs)
}

async function measured(work: (end: number) => Promise<number>): Promise<Speed> {
  const processorMs = processorTimeMs()
  const start = performance.now()
  const done = await work(start + ROUND_MS)
  const seconds = (performance.now() - start) / 1000
  return { rate: done / seconds, processorUs: ((processorTimeMs() - processorMs) * 1000) / done }
}

function middle(speeds: readonly Speed[]): Speed {
  return {
    rate: median(speeds.map(({ rate }) => rate)),
    processorUs: median(speeds.map(({ processorUs }) => processorUs)),
  }
}

async function processCosts(): Promise<void> {
  const starts: number[] = []
  for (let round = 0; round < ROUNDS; round++) {
    const functions = sandbox(1)
    const start = performance.now()
    await functions.map(program, documents.slice(0, 1), { owner: 'bench' })
    starts.push(performance.now() - start)
    await functions.close()
  }
  const functions = sandbox(1)
  await functions.map(program, documents.slice(0, 1), { owner: 'bench' })
  const idleMb = residentMb()
  await mapFor(functions, 2, ROUND_MS)
  const busyMb = residentMb()
  const start = performance.now()
  const isolates = 200
  for (let number = 0; number < isolates; number++) {
    await functions.map({ ...program, key: `bench ${number}` }, documents.slice(0, 1), { owner: 'bench' })
  }
  const isolateMs = (performance.now() - start) / isolates
  console.log(`start of a process and its first answer: ${median(starts).toFixed(0)} ms`)
  console.log(
    `a process takes ${idleMb.toFixed(0)} MB idle, ${busyMb.toFixed(0)} MB after a busy while, ${residentMb().toFixed(0)} MB with its most isolates`,
  )
  console.log(
    `a new isolate and its first answer: ${isolateMs.toFixed(2)} ms, ${(1000 / isolateMs).toFixed(0)} a second`,
  )
  await functions.close()
}

/** Of this process and those that it started, in ticks of a hundredth of a second. */
function processorTimeMs(): number {
  const ticks = children().reduce((sum, fields) => sum + Number(fields[11]) + Number(fields[12]), 0)
  const own = process.cpuUsage()
  return ticks * 10 + (own.user + own.system) / 1000
}

function residentMb(): number {
  return children().reduce((sum, fields) => sum + Number(fields[21]) * 4096, 0) / 2 ** 20
}

/** The fields of `/proc/<pid>/stat` behind the name, for each child. */
function children(): string[][] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((pid) => {
      try {
        const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
        return [stat.slice(stat.lastIndexOf(')') + 2).split(' ')]
      } catch {
        return []
      }
    })
    .filter((fields) => Number(fields[1]) === process.pid)
}
