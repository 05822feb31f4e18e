import { describe, expect, it } from 'vitest'
import { MemoryEngine } from '../../../src/storage/memory/memory-engine.ts'
import { RankTree, type RowChange } from '../../../src/storage/rank-tree/rank-tree.ts'
import type { KeyRange, Snapshot, Store } from '../../../src/storage/store.ts'

const ROWS = Buffer.from('d')
const NODES = Buffer.from('r')
const RECORD = Buffer.from('record')
const salt = Buffer.from('whatever')

function newTree(): RankTree {
  return new RankTree({ rowPrefix: ROWS, nodePrefix: NODES, salt })
}

function keyOf(number: number): Buffer {
  return Buffer.from(String(number).padStart(8, '0'))
}

function inserted(key: Buffer): RowChange {
  return { key, before: undefined, after: 1 }
}

async function emptyStore(): Promise<Store> {
  return new MemoryEngine().create('store')
}

/** Rows with even numbers, so that others fit between them. */
async function filledStore(rows: number): Promise<Store> {
  const store = await emptyStore()
  const builder = newTree().builder()
  const keys = Array.from({ length: rows }, (_, i) => keyOf(2 * i))
  for (const key of keys) builder.add(key, RECORD)
  const puts = keys.map((key) => [Buffer.concat([ROWS, key]), RECORD] as const)
  await store.commit({ puts: [...puts, ...(await builder.finish())] })
  return store
}

async function insert(store: Store, tree: RankTree, keys: readonly Buffer[]): Promise<void> {
  using snapshot = store.snapshot()
  const nodes = await tree.planChanges(snapshot, keys.map(inserted))
  const puts = keys.map((key) => [Buffer.concat([ROWS, key]), RECORD] as const)
  await store.commit({ puts: [...puts, ...nodes.puts], deletes: nodes.deletes })
}

interface Watched {
  readonly snapshot: Snapshot
  /** How often somebody waited: reads asked for together count once. */
  waits: number
  reads: number
}

function watch(snapshot: Snapshot): Watched {
  let pending = 0
  const watched: Watched = { snapshot: Object.create(snapshot), waits: 0, reads: 0 }
  const counted = async <T>(read: () => Promise<T>): Promise<T> => {
    if (pending++ === 0) watched.waits++
    watched.reads++
    try {
      return await read()
    } finally {
      pending--
    }
  }
  Object.assign(watched.snapshot, {
    version: () => counted(() => snapshot.version()),
    getMany: (keys: readonly Uint8Array[]) => counted(() => snapshot.getMany(keys)),
    page: (...page: Parameters<Snapshot['page']>) => counted(() => snapshot.page(...page)),
    count: (range: KeyRange) => counted(() => snapshot.count(range)),
  })
  return watched
}

describe('an empty tree', () => {
  it('weighs nothing, and has no nodes', async () => {
    const store = await emptyStore()
    const tree = newTree()
    using snapshot = store.snapshot()
    expect(await tree.total(snapshot)).toBe(0)
    expect(await tree.rank(snapshot, keyOf(1))).toBe(0)
    expect(await tree.select(snapshot, 0)).toBeUndefined()
    expect(await tree.countBetween(snapshot, undefined, undefined)).toBe(0)
    expect(await tree.planChanges(snapshot, [])).toMatchObject({ puts: [], deletes: [] })
    expect(await tree.check(snapshot)).toEqual({ wrong: 0, extra: 0 })
  })

  it('is what is left when all rows go', async () => {
    const store = await filledStore(500)
    const tree = newTree()
    using snapshot = store.snapshot()
    const changes = Array.from({ length: 500 }, (_, i) => ({ key: keyOf(2 * i), before: 1, after: undefined }))
    const { puts, deletes } = await tree.planChanges(snapshot, changes)
    expect(puts).toEqual([])
    const nodes = await snapshot.page(tree.nodeRange)
    const keys = Array.from({ length: nodes.length }, (_, i) => nodes.key(i))
    expect(deletes.sort(Buffer.compare)).toEqual(keys)
  })
})

describe('a tree of rows', () => {
  it('counts only what is under its prefix', async () => {
    const store = await filledStore(300)
    await store.commit({ puts: ['c', 'e', 'c9', '\xff'].map((key) => [Buffer.from(key), RECORD] as const) })
    const tree = newTree()
    using snapshot = store.snapshot()
    expect(await tree.total(snapshot)).toBe(300)
    expect(await tree.rank(snapshot, Buffer.from([0xff]))).toBe(300)
    expect(await tree.countBetween(snapshot, keyOf(100), undefined)).toBe(250)
    expect(await tree.countBetween(snapshot, keyOf(100), keyOf(99))).toBe(0)
    expect((await tree.select(snapshot, 299))?.toString()).toBe(keyOf(598).toString())
    expect(await tree.select(snapshot, 300)).toBeUndefined()
  })

  it('reports which nodes are wrong and how many are superfluous', async () => {
    const store = await filledStore(2000)
    const tree = newTree()
    using whole = store.snapshot()
    const page = await whole.page(tree.nodeRange)
    await store.commit({
      deletes: [page.key(2)],
      puts: [
        [page.key(1), Buffer.of(9, 0)],
        [Buffer.concat([NODES, Buffer.of(1), Buffer.from('extra')]), Buffer.of(9, 0)],
      ],
    })
    using snapshot = store.snapshot()
    expect(await tree.check(whole)).toEqual({ wrong: 0, extra: 0 })
    expect(await tree.check(snapshot)).toEqual({ wrong: 2, extra: 1 })
  })

  it('refuses changes that are not in order, doubled, without a key or of an odd weight', async () => {
    const store = await filledStore(100)
    const tree = newTree()
    using snapshot = store.snapshot()
    for (const keys of [['b', 'a'], ['a', 'a'], ['']]) {
      await expect(
        tree.planChanges(
          snapshot,
          keys.map((key) => inserted(Buffer.from(key))),
        ),
      ).rejects.toThrow('order')
    }
    for (const after of [-1, 0.5]) {
      await expect(tree.planChanges(snapshot, [{ key: keyOf(1), before: undefined, after }])).rejects.toThrow('weight')
    }
  })

  it('refuses changes that do not fit the rows, where boundaries among them make it read those', async () => {
    const store = await filledStore(2000)
    const tree = newTree()
    using snapshot = store.snapshot()
    const there = Array.from({ length: 2000 }, (_, i) => inserted(keyOf(2 * i)))
    await expect(tree.planChanges(snapshot, there)).rejects.toThrow('does not fit')
  })
})

describe('round trips on 20,000 rows', () => {
  it('are two to find out a rank or a count, and one for the total', async () => {
    const store = await filledStore(20_000)
    const tree = newTree()
    using snapshot = store.snapshot()
    await tree.rank(snapshot, keyOf(30_001))
    const rank = watch(snapshot)
    expect(await tree.rank(rank.snapshot, keyOf(30_001))).toBe(15_001)
    expect(rank.waits).toBe(2)
    const total = watch(snapshot)
    expect(await tree.total(total.snapshot)).toBe(20_000)
    expect(total.waits).toBe(1)
  })

  it('are one a level and a few more where nothing is known of a state', async () => {
    const store = await filledStore(20_000)
    const tree = newTree()
    using before = store.snapshot()
    expect(await tree.rank(before, keyOf(30_001))).toBe(15_001)
    await store.commit({ puts: [[Buffer.from('elsewhere'), Buffer.alloc(0)]] })
    using after = store.snapshot()
    for (const snapshot of [after, before]) {
      const watched = watch(snapshot)
      expect(await tree.rank(watched.snapshot, keyOf(30_001))).toBe(15_001)
      expect(watched.waits).toBeLessThanOrEqual(6)
    }
  })

  it('are one for a row that is kept and two for a new one, but for those that meet a boundary', async () => {
    const store = await filledStore(20_000)
    const tree = newTree()
    const waits = { inserted: [0, 0, 0, 0, 0, 0], kept: [0, 0, 0, 0, 0, 0] }
    for (let number = 1; number < 40_000; number += 200) {
      using snapshot = store.snapshot()
      const unknown = watch(snapshot)
      await tree.planChanges(unknown.snapshot, [inserted(keyOf(number))])
      waits.inserted[unknown.waits]!++
      const known = watch(snapshot)
      await tree.planChanges(known.snapshot, [{ key: keyOf(number + 1), before: 1, after: 0 }])
      waits.kept[known.waits]!++
    }
    expect(waits.inserted[1]! + waits.inserted[2]!).toBeGreaterThan(185)
    expect(waits.kept[1]).toBeGreaterThan(185)
    expect(waits.kept[1]! + waits.kept[2]!).toBe(200)
  })

  it('do not grow with the rows that are appended together', async () => {
    const store = await filledStore(20_000)
    const tree = newTree()
    using snapshot = store.snapshot()
    const appended = watch(snapshot)
    await tree.planChanges(
      appended.snapshot,
      Array.from({ length: 5000 }, (_, i) => inserted(keyOf(50_000 + i))),
    )
    expect(appended.reads).toBeLessThan(20)
  })

  it('are far fewer than the rows that are inserted all over', async () => {
    const store = await filledStore(20_000)
    const tree = newTree()
    const scattered = (offset: number) => Array.from({ length: 1000 }, (_, i) => keyOf(40 * i + offset))
    await insert(store, tree, scattered(1))
    using snapshot = store.snapshot()
    const watched = watch(snapshot)
    await tree.planChanges(watched.snapshot, scattered(3).map(inserted))
    expect(watched.reads).toBeLessThan(100)
    expect(await tree.check(snapshot)).toEqual({ wrong: 0, extra: 0 })
  })
})

it('takes as many rows as a commit can hold', async () => {
  const store = await filledStore(2000)
  using snapshot = store.snapshot()
  const changes = Array.from({ length: 200_000 }, (_, i) => inserted(keyOf(10_000_000 + i)))
  const { puts, deletes } = await newTree().planChanges(snapshot, changes)
  expect(puts.length / (changes.length / 63)).toBeCloseTo(1, 0)
  expect(deletes).toEqual([])
})
