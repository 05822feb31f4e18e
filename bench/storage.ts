/**
 * What the store interface costs: the LMDB engine beside the bare library with the same promises, each case in turns
 * in one run. Ratios count, the machine does not. Run: npm run bench:storage
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { open } from 'lmdb'
import { LMDB_PAGE_BYTES } from '../src/storage/file-check/page-layout.ts'
import { LmdbEngine } from '../src/storage/lmdb/lmdb-engine.ts'
import type { KeyRange, Page, Put } from '../src/storage/store.ts'

const ROUNDS = 7
const ROUND_MS = 400
const ROWS = 200_000
const KEY_BYTES = 16
const SHORT_BYTES = 40
const COMMIT_ROW_BYTES = 300
const READS = 1000

let touched = 0
const shuffled = Array.from({ length: 20_000 }, () => keyOf(Math.floor(Math.random() * ROWS)))

/** Does some work and says how much of it that was. */
type Work = () => Promise<number>

interface Case {
  readonly name: string
  readonly unit: string
  readonly ours: Work
  readonly bare: Work
  /** The share of the bare library's speed that we promise ourselves. */
  readonly target?: number
}

interface Result {
  readonly ratio: number
  readonly target: number | string
  readonly ours: string
  readonly bare: string
  readonly unit: string
}

const folder = await mkdtemp(join(tmpdir(), 'settle-bench-'))
const engine = await LmdbEngine.open({ folder: join(folder, 'ours') })
const store = await engine.create('store')
const bare = open<Uint8Array, Uint8Array>(join(folder, 'bare.mdb'), {
  pageSize: LMDB_PAGE_BYTES,
  noReadAhead: true,
  overlappingSync: false,
  eventTurnBatching: false,
  encoding: 'binary',
  keyEncoding: 'binary',
})
try {
  await fill()
  const table: Record<string, Result> = {}
  for (const each of [commits(1), commits(32), commits(256), scan(), keys(), get(), snapshotAndGet(), getMany()]) {
    table[each.name] = await compare(each)
  }
  console.table(table)
} finally {
  await engine.close()
  await bare.close()
  await rm(folder, { recursive: true })
}

async function compare({ unit, ours, bare, target }: Case): Promise<Result> {
  const rates: { ours: number[]; bare: number[] } = { ours: [], bare: [] }
  for (let round = 0; round <= ROUNDS; round++) {
    const pair = { ours: await rate(ours), bare: await rate(bare) }
    // The first round is for warming up.
    if (round === 0) continue
    rates.ours.push(pair.ours)
    rates.bare.push(pair.bare)
  }
  return {
    ratio: Number(median(rates.ours.map((rate, i) => rate / rates.bare[i]!)).toFixed(2)),
    target: target ?? '',
    ours: Math.round(median(rates.ours)).toLocaleString('en'),
    bare: Math.round(median(rates.bare)).toLocaleString('en'),
    unit,
  }
}

async function rate(work: Work): Promise<number> {
  const start = performance.now()
  let done = 0
  do done += await work()
  while (performance.now() - start < ROUND_MS)
  return (done / (performance.now() - start)) * 1000
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1]!
}

/** Each writer has one commit of two rows under way; keys go up, as sequences do. */
function commits(writers: number): Case {
  const each = Math.max(8, 64 / writers)
  let next = 0
  const rows = (): Put[] => [commitRow(next++), commitRow(next++)]
  const inParallel = async (commit: () => Promise<unknown>) => {
    const writer = async () => {
      for (let i = 0; i < each; i++) await commit()
    }
    await Promise.all(Array.from({ length: writers }, writer))
    return writers * each
  }
  return {
    name: `durable commits, writers: ${writers}`,
    unit: 'commits/s',
    ours: () => inParallel(() => store.commit({ puts: rows() })),
    bare: () =>
      inParallel(() =>
        bare.batch(() => {
          for (const [key, value] of rows()) bare.put(key, value)
        }),
      ),
  }
}

/** All rows, each touched: its key's and value's last byte. */
function scan(): Case {
  return {
    name: 'scan of short rows',
    unit: 'rows/s',
    target: 0.7,
    ours: async () => {
      using snapshot = store.snapshot()
      let rows = 0
      let rest: KeyRange | undefined = { from: keyOf(0), to: keyOf(ROWS) }
      while (rest) {
        const page: Page = await snapshot.page(rest)
        for (let row = 0; row < page.length; row++) touch(page.block, page.bounds[3 * row + 2]!)
        rows += page.length
        rest = page.next
      }
      return rows
    },
    bare: async () => {
      let rows = 0
      for (const { value } of bare.getRange({ start: keyOf(0), end: keyOf(ROWS) })) {
        touch(value, value.length)
        rows++
      }
      return rows
    },
  }
}

function keys(): Case {
  return {
    name: 'scan of keys',
    unit: 'rows/s',
    ours: async () => {
      using snapshot = store.snapshot()
      let rows = 0
      let rest: KeyRange | undefined = { from: keyOf(0), to: keyOf(ROWS) }
      while (rest) {
        const page: Page = await snapshot.page(rest, { keysOnly: true })
        rows += page.length
        rest = page.next
      }
      return rows
    },
    bare: async () => {
      let rows = 0
      for (const key of bare.getKeys({ start: keyOf(0), end: keyOf(ROWS) })) {
        touch(key, key.length)
        rows++
      }
      return rows
    },
  }
}

function get(): Case {
  return {
    name: 'get, one snapshot',
    unit: 'reads/s',
    target: 0.6,
    ours: async () => {
      using snapshot = store.snapshot()
      for (let i = 0; i < READS; i++) await snapshot.get(randomKey())
      return READS
    },
    bare: async () => {
      for (let i = 0; i < READS; i++) bare.getBinary(randomKey())
      return READS
    },
  }
}

function snapshotAndGet(): Case {
  return {
    name: 'snapshot, get, release',
    unit: 'reads/s',
    ours: async () => {
      for (let i = 0; i < READS; i++) {
        using snapshot = store.snapshot()
        await snapshot.get(randomKey())
      }
      return READS
    },
    bare: async () => {
      for (let i = 0; i < READS; i++) {
        const transaction = bare.useReadTransaction()
        bare.getBinary(randomKey(), { transaction })
        transaction.done()
      }
      return READS
    },
  }
}

function getMany(): Case {
  const some = () => Array.from({ length: 100 }, randomKey)
  return {
    name: 'getMany of 100 keys',
    unit: 'reads/s',
    ours: async () => {
      using snapshot = store.snapshot()
      for (let i = 0; i < READS / 100; i++) await snapshot.getMany(some())
      return READS
    },
    bare: async () => {
      for (let i = 0; i < READS / 100; i++) for (const key of some()) bare.getBinary(key)
      return READS
    },
  }
}

async function fill(): Promise<void> {
  for (let first = 0; first < ROWS; first += 10_000) {
    const puts = Array.from({ length: 10_000 }, (_, i): Put => [keyOf(first + i), Buffer.alloc(SHORT_BYTES, i)])
    await store.commit({ puts })
    await bare.batch(() => {
      for (const [key, value] of puts) bare.put(key, value)
    })
  }
}

function keyOf(number: number): Buffer {
  return Buffer.from(`row/${String(number).padStart(KEY_BYTES - 4, '0')}`)
}

function commitRow(number: number): Put {
  return [Buffer.from(`z/${String(number).padStart(KEY_BYTES - 2, '0')}`), Buffer.alloc(COMMIT_ROW_BYTES, number)]
}

/** Made beforehand: making one takes longer than reading its row. */
function randomKey(): Buffer {
  return shuffled[touched++ % shuffled.length]!
}

/** Looks at the last byte, so that nothing can be left out. */
function touch(bytes: Uint8Array, end: number): void {
  touched = (touched + bytes[end - 1]!) & 0xffffff
}
