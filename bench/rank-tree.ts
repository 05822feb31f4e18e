/**
 * What counting costs on a million rows of an LMDB store: the questions, and what a commit takes longer because the
 * nodes of the tree go with the rows. Medians. Run: node bench/rank-tree.ts [rows]
 */
import { hash, randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { LmdbEngine } from '../src/storage/lmdb/lmdb-engine.ts'
import { RankTree, type Reducer, type RowChange } from '../src/storage/rank-tree/rank-tree.ts'
import type { Put, Store } from '../src/storage/store.ts'

const ROWS = Number(process.argv[2] ?? 1_000_000)
const ROWS_A_COMMIT = 50_000
const DOCUMENTS = Buffer.from('d')
/** The same rows once more, without a tree: what a commit costs by itself. */
const BARE = Buffer.from('e')
const COUNTS = Buffer.from('r')
const SUMS = Buffer.from('s')
const RECORD = Buffer.alloc(80, 1)

/** Counts rows, as the simplest reduction: what is measured is the tree, not the functions of a user. */
const counter: Reducer = {
  reduce: async (groups) => groups.map((rows) => uint32(rows.length)),
  rereduce: async (groups) => groups.map((counts) => uint32(counts.reduce((sum, each) => sum + numberIn(each), 0))),
}

let number = 0
const salt = randomBytes(8)
const counts = new RankTree({
  rowPrefix: DOCUMENTS,
  nodePrefix: COUNTS,
  salt,
  weightOf: (record) => record[0]!,
})
const sums = new RankTree({ rowPrefix: DOCUMENTS, nodePrefix: SUMS, salt, reducer: counter })

const ids = Array.from({ length: ROWS }, (_, i) => idOf(`row ${i}`)).sort(Buffer.compare)
const folder = await mkdtemp(join(tmpdir(), 'settle-bench-'))
const engine = await LmdbEngine.open({ folder })
try {
  await run(await engine.create('rows'))
} finally {
  await engine.close()
  await rm(folder, { recursive: true })
}

async function run(store: Store): Promise<void> {
  await timed(`load ${ROWS} rows in key order, twice`, () => load(store))
  for (const [name, tree] of [
    ['counts, one in 64', counts],
    ['reductions, one in 16', sums],
  ] as const) {
    console.log(`\n${name}`)
    await timed('  build all nodes', () => build(store, tree))
    await questions(store, tree)
    await updates(store, tree)
    await timed('  check', async () => {
      using snapshot = store.snapshot()
      console.log('  faults', await tree.check(snapshot))
    })
    await store.commit({ clears: [tree.nodeRange] })
  }
}

async function load(store: Store): Promise<void> {
  for (let first = 0; first < ids.length; first += ROWS_A_COMMIT) {
    for (const prefix of [DOCUMENTS, BARE]) {
      await store.commit({ puts: putsUnder(prefix, ids.slice(first, first + ROWS_A_COMMIT)) })
    }
  }
}

async function build(store: Store, tree: RankTree): Promise<void> {
  using snapshot = store.snapshot()
  let puts: Put[] = []
  for await (const more of tree.rebuild(snapshot)) {
    puts.push(...more)
    if (puts.length < ROWS_A_COMMIT) continue
    await store.commit({ puts })
    puts = []
  }
  await store.commit({ puts })
}

async function questions(store: Store, tree: RankTree): Promise<void> {
  const TIMES = 300
  await repeated('  total', TIMES, () => ask(store, (snapshot) => tree.total(snapshot)))
  await repeated('  rank of a random key', TIMES, () => ask(store, (snapshot) => tree.rank(snapshot, anyId())))
  const skip = Math.floor(ROWS * 0.9)
  await repeated(`  select(${skip})`, TIMES, () => ask(store, (snapshot) => tree.select(snapshot, skip)))
  await repeated('  countBetween two random keys', TIMES, () =>
    ask(store, (snapshot) => tree.countBetween(snapshot, ...anyRange())),
  )
  if (tree === sums) {
    await repeated('  reduceRange of two random keys', TIMES, () =>
      ask(store, (snapshot) => tree.reduceRange(snapshot, ...anyRange())),
    )
  }
}

async function updates(store: Store, tree: RankTree): Promise<void> {
  const scattered = () => idOf(`new row ${number++}`)
  const appended = () => Buffer.from(`g${String(number++).padStart(31, '0')}`)
  await commits('  1 new row', store, tree, 200, () => [scattered()])
  await commits('  1,000 new rows at random places', store, tree, 20, () => Array.from({ length: 1000 }, scattered))
  await commits('  1,000 new rows at the end', store, tree, 20, () => Array.from({ length: 1000 }, appended))
}

/** Inserts rows with their nodes, then the same ones without a tree. */
async function commits(name: string, store: Store, tree: RankTree, times: number, keys: () => Buffer[]): Promise<void> {
  const planMs: number[] = []
  const withNodesMs: number[] = []
  const plainMs: number[] = []
  let nodes = 0
  for (let i = 0; i < times; i++) {
    const rows = keys().sort(Buffer.compare)
    const changes = rows.map((key): RowChange => ({ key, before: undefined, after: 1, value: RECORD }))
    using snapshot = store.snapshot()
    const start = performance.now()
    const plan = await tree.planChanges(snapshot, changes)
    const planned = performance.now()
    await store.commit({ puts: [...putsUnder(DOCUMENTS, rows), ...plan.puts], deletes: plan.deletes })
    const committed = performance.now()
    await store.commit({ puts: putsUnder(BARE, rows) })
    plainMs.push(performance.now() - committed)
    planMs.push(planned - start)
    withNodesMs.push(committed - planned)
    nodes += plan.puts.length + plan.deletes.length
  }
  console.log(
    `${name.padEnd(42)} plan ${median(planMs)} ms, commit ${median(withNodesMs)} ms with ${(nodes / times).toFixed(0)} ` +
      `nodes, ${median(plainMs)} ms without`,
  )
}

/** The machine may do other things at the same time; they do not hit most of many tries. */
function median(values: readonly number[]): string {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]!.toFixed(2)
}

async function ask<T>(store: Store, question: (snapshot: ReturnType<Store['snapshot']>) => Promise<T>): Promise<T> {
  using snapshot = store.snapshot()
  return await question(snapshot)
}

async function timed(name: string, work: () => Promise<void>): Promise<void> {
  const start = performance.now()
  await work()
  console.log(`${name.padEnd(42)} ${(performance.now() - start).toFixed(0)} ms`)
}

async function repeated(name: string, times: number, work: () => Promise<unknown>): Promise<void> {
  const ms: number[] = []
  for (let i = 0; i < times; i++) {
    const start = performance.now()
    await work()
    ms.push(performance.now() - start)
  }
  console.log(`${name.padEnd(42)} ${median(ms)} ms`)
}

function putsUnder(prefix: Buffer, keys: readonly Buffer[]): Put[] {
  return keys.map((key) => [Buffer.concat([prefix, key]), RECORD])
}

function idOf(text: string): Buffer {
  return Buffer.from(hash('md5', text, 'hex'))
}

function anyId(): Buffer {
  return ids[Math.floor(Math.random() * ids.length)]!
}

function anyRange(): [Buffer, Buffer] {
  const [from, to] = [anyId(), anyId()].sort(Buffer.compare)
  return [from!, to!]
}

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(value)
  return bytes
}

function numberIn(bytes: Uint8Array): number {
  return Buffer.from(bytes).readUInt32BE(0)
}
