/** Trees with tiny fan-outs, so that they are deep, held against a sorted array after every batch of changes. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { LmdbEngine } from '../../../src/storage/lmdb/lmdb-engine.ts'
import { MemoryEngine } from '../../../src/storage/memory/memory-engine.ts'
import {
  type RangePart,
  RankTree,
  type RankTreeOptions,
  type Reducer,
  type RowChange,
} from '../../../src/storage/rank-tree/rank-tree.ts'
import { CUT_KEY_BYTES, storedKey } from '../../../src/storage/rows/stored-key.ts'
import type { Put, Snapshot, StorageEngine, Store } from '../../../src/storage/store.ts'
import { asText, readAll } from '../model.ts'

const ROWS = Buffer.of(0x10, 0x07)
const NODES = Buffer.of(0x20)

const shortKey = fc
  .array(fc.integer({ min: 0, max: 63 }), { minLength: 1, maxLength: 2 })
  .map((bytes) => Buffer.from(bytes.map((byte) => byte * 4 + (byte & 3))))

/** They share what precedes the cut, with each other and with some that are just short of it. */
const longKey = fc
  .tuple(
    fc.constantFrom(0x51, 0xf3),
    fc.constantFrom(CUT_KEY_BYTES - 60, CUT_KEY_BYTES - 30, CUT_KEY_BYTES - 20, CUT_KEY_BYTES, CUT_KEY_BYTES + 40),
    fc.integer({ min: 0x4e, max: 0x54 }),
  )
  .map(([first, size, last]) => Buffer.concat([Buffer.of(first), Buffer.alloc(size - 2, 0x51), Buffer.of(last)]))

const anyKey = fc.oneof({ weight: 12, arbitrary: shortKey }, { weight: 1, arbitrary: longKey })

/** Sets rows to a weight, or takes them away; or takes away all in a range. */
type Batch =
  | { readonly kind: 'set'; readonly rows: readonly { readonly key: Buffer; readonly weight: number | undefined }[] }
  | { readonly kind: 'clear'; readonly bounds: readonly [Buffer, Buffer] }

function batch(key: fc.Arbitrary<Buffer>): fc.Arbitrary<Batch> {
  const row = fc.record({ key, weight: fc.constantFrom(undefined, undefined, 0, 1, 1, 1, 3) })
  const set = (maxLength: number) =>
    fc.record({ kind: fc.constant('set' as const), rows: fc.array(row, { maxLength, size: 'max' }) })
  return fc.oneof(
    { weight: 3, arbitrary: set(6) },
    { weight: 3, arbitrary: set(120) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('clear' as const), bounds: fc.tuple(key, key) }) },
  )
}

interface ModelRow {
  readonly key: Buffer
  readonly value: Buffer
}

/** The value of a row is its weight, and something that changes with every batch. */
const weightOf = (value: Buffer) => value[0]!

class Trial {
  readonly store: Store
  /** Takes part in turns with another one, as in another process: what it remembers of the nodes is often wrong. */
  tree: RankTree
  #other: RankTree
  /** In the order of the store. */
  rows: readonly ModelRow[] = []
  #batches = 0

  constructor(store: Store, options: RankTreeOptions) {
    this.store = store
    this.tree = new RankTree(options)
    this.#other = new RankTree(options)
  }

  async apply(batch: Batch): Promise<void> {
    const stamp = ++this.#batches
    if (stamp % 3 === 0) [this.tree, this.#other] = [this.#other, this.tree]
    const before = new Map(this.rows.map((row) => [row.key.toString('hex'), row]))
    const wanted = new Map(this.#wanted(batch).map((row) => [row.key.toString('hex'), row]))
    const changes: RowChange[] = []
    const puts: Put[] = []
    const deletes: Buffer[] = []
    for (const [hex, { key, weight }] of [...wanted].sort(([, a], [, b]) => Buffer.compare(a.key, b.key))) {
      const old = before.get(hex)
      const value = weight === undefined ? undefined : Buffer.of(weight, stamp)
      changes.push({ key, before: old && weightOf(old.value), after: weight, ...(value && { value }) })
      if (value) {
        puts.push([Buffer.concat([ROWS, key]), value])
        before.set(hex, { key, value })
      } else {
        deletes.push(Buffer.concat([ROWS, key]))
        before.delete(hex)
      }
    }
    using snapshot = this.store.snapshot()
    const nodes = await this.tree.planChanges(snapshot, changes)
    const expected = await snapshot.version()
    const { version } = await this.store.commit({
      puts: [...puts, ...nodes.puts],
      deletes: [...deletes, ...nodes.deletes],
      expected,
    })
    this.tree.committed(expected, version, nodes)
    const stored = (row: ModelRow) => storedKey(Buffer.concat([ROWS, row.key]))
    this.rows = [...before.values()].sort((a, b) => Buffer.compare(stored(a), stored(b)))
  }

  #wanted(batch: Batch): { key: Buffer; weight: number | undefined }[] {
    if (batch.kind === 'set') return [...batch.rows]
    return between(this.rows, ...batch.bounds).map(({ key }) => ({ key, weight: undefined }))
  }
}

function between(rows: readonly ModelRow[], from?: Buffer, to?: Buffer): ModelRow[] {
  return rows.filter(({ key }) => (!from || Buffer.compare(key, from) >= 0) && (!to || Buffer.compare(key, to) < 0))
}

function weightOfRows(rows: readonly ModelRow[]): number {
  return rows.reduce((sum, { value }) => sum + weightOf(value), 0)
}

async function expectSameAsRebuilt({ tree }: Trial, snapshot: Snapshot): Promise<void> {
  const rebuilt: { key: Buffer; value: Buffer }[] = []
  for await (const puts of tree.rebuild(snapshot)) {
    for (const [key, value] of puts) rebuilt.push({ key: Buffer.from(key), value: Buffer.from(value) })
  }
  rebuilt.sort((a, b) => Buffer.compare(a.key, b.key))
  expect(asText(await readAll(snapshot, tree.nodeRange, 100))).toEqual(asText(rebuilt))
  expect(await tree.check(snapshot)).toEqual({ wrong: 0, extra: 0 })
}

async function expectRightAnswers(
  { tree }: Trial,
  rows: readonly ModelRow[],
  snapshot: Snapshot,
  probes: readonly Buffer[],
): Promise<void> {
  const total = weightOfRows(rows)
  expect(await tree.total(snapshot)).toBe(total)
  for (const [i, key] of probes.entries()) {
    expect(await tree.rank(snapshot, key)).toBe(weightOfRows(between(rows, undefined, key)))
    const other = probes[(i + 1) % probes.length]
    expect(await tree.countBetween(snapshot, key, other)).toBe(weightOfRows(between(rows, key, other)))
    expect(await tree.countBetween(snapshot, key, undefined)).toBe(weightOfRows(between(rows, key)))
  }
  for (const share of [0, 0.1, 0.37, 0.5, 0.93, 1]) {
    const position = Math.floor(total * share)
    let passed = 0
    const row = rows.find(({ value }) => {
      passed += weightOf(value)
      return passed > position
    })
    expect((await tree.select(snapshot, position))?.toString('hex')).toBe(row?.key.toString('hex'))
  }
}

/** Rows and reductions are text in key order, so that a part that is missing, doubled or misplaced shows. */
function journal(): { reducer: Reducer; calls: { count: number } } {
  const calls = { count: 0 }
  return {
    calls,
    reducer: {
      async reduce(groups) {
        calls.count++
        return groups.map((rows) => Buffer.from(rows.map(textOf).join('')))
      },
      async rereduce(groups) {
        calls.count++
        return groups.map((reductions) => Buffer.concat(reductions))
      },
    },
  }
}

function textOf({ key, value }: ModelRow): string {
  return `${key.toString('hex')}=${value.toString('hex')};`
}

async function reducedText(tree: RankTree, snapshot: Snapshot, from?: Buffer, to?: Buffer): Promise<string> {
  return textOfParts(await tree.reduceRange(snapshot, from, to))
}

function textOfParts(parts: readonly RangePart[]): string {
  return parts
    .map((part) => (part.kind === 'rows' ? part.rows.map(textOf).join('') : part.reductions.join('')))
    .join('')
}

/** A range and the rows next to it are a longer range, up to the position. */
async function expectReducedThrough(
  { tree, rows }: Trial,
  snapshot: Snapshot,
  from: Buffer,
  to: Buffer | undefined,
  { reverse }: { readonly reverse: boolean },
): Promise<void> {
  if (to && Buffer.compare(from, to) >= 0) return
  const { parts, weight, beyond, position } = await tree.reduceThrough(snapshot, from, to, { reverse })
  const inside = between(rows, from, to)
  expect(textOfParts(parts)).toBe(inside.map(textOf).join(''))
  expect(weight).toBe(weightOfRows(inside))
  const outside = reverse ? between(rows, position, from).toReversed() : to ? between(rows, to, position) : []
  expect(beyond.map(textOf)).toEqual(outside.map(textOf))
}

const engines: Record<string, (use: (engine: StorageEngine) => Promise<void>) => Promise<void>> = {
  memory: (use) => use(new MemoryEngine()),
  LMDB: async (use) => {
    const folder = await mkdtemp(join(tmpdir(), 'settle-test-'))
    const engine = await LmdbEngine.open({ folder })
    try {
      await use(engine)
    } finally {
      await engine.close()
      await rm(folder, { recursive: true })
    }
  },
}

const RUNS = process.env.SETTLE_LONG === '1' ? { memory: 1500, LMDB: 400 } : { memory: 100, LMDB: 30 }
const salt = fc.uint8Array({ minLength: 8, maxLength: 8 })
const fanOut = fc.constantFrom(2, 4, 16)

describe.each(['memory', 'LMDB'] as const)('a rank tree in the %s engine', (name) => {
  const timeout = 300_000

  it('counts like a sorted array, and has the same nodes as a rebuilt tree', { timeout }, async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(batch(anyKey), { minLength: 1, maxLength: 12 }),
        fc.array(anyKey, { minLength: 1, maxLength: 4 }),
        salt,
        fanOut,
        (batches, probes, salt, fanOut) =>
          engines[name]!(async (engine) => {
            const options = { rowPrefix: ROWS, nodePrefix: NODES, salt, fanOut, weightOf }
            const trial = new Trial(await engine.create('store'), options)
            for (const each of batches) {
              using before = trial.store.snapshot()
              const rowsBefore = trial.rows
              await trial.apply(each)
              using snapshot = trial.store.snapshot()
              await expectSameAsRebuilt(trial, snapshot)
              await expectRightAnswers(trial, trial.rows, snapshot, probes)
              await expectRightAnswers(trial, rowsBefore, before, probes)
            }
          }),
      ),
      { numRuns: RUNS[name] },
    )
  })

  it('keeps reductions of any range, made with one call a level', { timeout }, async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(batch(shortKey), { minLength: 1, maxLength: 10 }),
        fc.array(shortKey, { minLength: 1, maxLength: 4 }),
        salt,
        fanOut,
        (batches, probes, salt, fanOut) =>
          engines[name]!(async (engine) => {
            const { reducer, calls } = journal()
            const options = { rowPrefix: ROWS, nodePrefix: NODES, salt, fanOut, weightOf, reducer }
            const trial = new Trial(await engine.create('store'), options)
            for (const each of batches) {
              calls.count = 0
              await trial.apply(each)
              expect(calls.count).toBeLessThanOrEqual(24 / Math.log2(fanOut) + 1)
              using snapshot = trial.store.snapshot()
              await expectSameAsRebuilt(trial, snapshot)
              await expectRightAnswers(trial, trial.rows, snapshot, probes)
              for (const [i, from] of probes.entries()) {
                const to = probes[(i + 1) % probes.length]
                expect(await reducedText(trial.tree, snapshot, from, to)).toBe(
                  between(trial.rows, from, to).map(textOf).join(''),
                )
                // The second time from what is remembered.
                for (const reverse of [false, true, false, true]) {
                  await expectReducedThrough(trial, snapshot, from, to, { reverse })
                }
              }
              expect(await reducedText(trial.tree, snapshot)).toBe(trial.rows.map(textOf).join(''))
            }
          }),
      ),
      { numRuns: RUNS[name] },
    )
  })
})
