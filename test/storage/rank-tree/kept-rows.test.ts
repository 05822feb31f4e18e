import { describe, expect, it } from 'vitest'
import { MemoryEngine } from '../../../src/storage/memory/memory-engine.ts'
import { keptBytes } from '../../../src/storage/rank-tree/kept-rows.ts'
import { RankTree, type Reducer, type ReducibleRow } from '../../../src/storage/rank-tree/rank-tree.ts'
import type { Snapshot, Store } from '../../../src/storage/store.ts'
import { collectGarbage } from '../../support/collect-garbage.ts'
import { until } from '../../support/until.ts'

const ROWS = Buffer.from('d')
const NODES = Buffer.from('r')

/** What is kept of rows: a line of each. */
const reducer: Reducer = {
  reduce: async (groups) => groups.map((rows) => Buffer.from(rows.map(lineOf).join('\n'))),
  rereduce: async (groups) => groups.map((parts) => Buffer.from(parts.map((part) => `${part}`).join('\n'))),
}

function lineOf({ key, value }: ReducibleRow): string {
  return `${key} ${value.length} ${value.subarray(0, 4)}`
}

function keyOf(number: number): Buffer {
  return Buffer.from(String(number).padStart(6, '0'))
}

interface Filled {
  readonly store: Store
  readonly tree: RankTree
}

async function filled(rows: number, valueBytes: number): Promise<Filled> {
  const store = await new MemoryEngine().create('store')
  const tree = new RankTree({ rowPrefix: ROWS, nodePrefix: NODES, salt: Buffer.from('whatever'), reducer })
  const builder = tree.builder()
  const puts: [Buffer, Buffer][] = []
  for (let row = 0; row < rows; row++) {
    const value = Buffer.alloc(valueBytes, String(row))
    builder.add(keyOf(row), value)
    puts.push([Buffer.concat([ROWS, keyOf(row)]), value])
  }
  await store.commit({ puts: [...puts, ...(await builder.finish())] })
  return { store, tree }
}

/** The lines of the rows from one up to another, as the tree gives them. */
async function rowsIn(tree: RankTree, snapshot: Snapshot, from: number, to: number): Promise<string[]> {
  const parts = await tree.reduceRange(snapshot, keyOf(from), keyOf(to))
  return parts.flatMap((part) =>
    part.kind === 'rows' ? part.rows.map(lineOf) : part.reductions.flatMap((lines) => lines.toString().split('\n')),
  )
}

function expectedRows(from: number, to: number, valueBytes: number): string[] {
  return Array.from({ length: to - from }, (_, i) =>
    lineOf({ key: keyOf(from + i), value: Buffer.alloc(valueBytes, String(from + i)) }),
  )
}

function countingPages(snapshot: Snapshot): { readonly snapshot: Snapshot; pages: number } {
  const counting = { snapshot: Object.create(snapshot), pages: 0 }
  Object.assign(counting.snapshot, {
    version: () => snapshot.version(),
    getMany: (keys: readonly Uint8Array[]) => snapshot.getMany(keys),
    page: (...page: Parameters<Snapshot['page']>) => {
      counting.pages++
      return snapshot.page(...page)
    },
  })
  return counting
}

describe('the rows of short ranges', () => {
  for (const valueBytes of [4, 300, 20_000]) {
    it(`are the same however often they are asked for (values of ${valueBytes} bytes)`, async () => {
      const { store, tree } = await filled(200, valueBytes)
      using snapshot = store.snapshot()
      for (let round = 0; round < 4; round++) {
        for (let from = 0; from < 198; from += 3) {
          expect(await rowsIn(tree, snapshot, from, from + 2)).toEqual(expectedRows(from, from + 2, valueBytes))
        }
      }
    })
  }

  it('are not read again when they were asked for twice, and those of a newer state are', async () => {
    const { store, tree } = await filled(1000, 4)
    using snapshot = store.snapshot()
    const counting = countingPages(snapshot)
    for (let round = 0; round < 3; round++) await rowsIn(tree, counting.snapshot, 500, 502)
    const before = counting.pages
    expect(await rowsIn(tree, counting.snapshot, 500, 502)).toEqual(expectedRows(500, 502, 4))
    expect(counting.pages).toBe(before)

    const change = { key: keyOf(501), before: 1, after: undefined }
    const { puts, deletes } = await tree.planChanges(snapshot, [change])
    await store.commit({ puts, deletes: [...deletes, Buffer.concat([ROWS, keyOf(501)])] })
    using newer = store.snapshot()
    for (let round = 0; round < 3; round++) {
      expect(await rowsIn(tree, newer, 500, 502)).toEqual(expectedRows(500, 501, 4))
      // Who began before goes on with the state of then.
      expect(await rowsIn(tree, snapshot, 500, 502)).toEqual(expectedRows(500, 502, 4))
    }
  })

  it('take little where a tree has few, and nothing when the tree is gone', async () => {
    const before = keptBytes()
    const { arrayBuffers } = process.memoryUsage()
    let trees: Filled[] | undefined = []
    for (let i = 0; i < 200; i++) {
      const { store, tree } = await filled(50, 4)
      trees.push({ store, tree })
      using snapshot = store.snapshot()
      for (let round = 0; round < 3; round++) await rowsIn(tree, snapshot, 20, 22)
    }
    const kept = keptBytes() - before
    expect(kept).toBeGreaterThan(200 * 1024)
    expect(kept).toBeLessThan(200 * 4096)
    expect(process.memoryUsage().arrayBuffers - arrayBuffers).toBeLessThan(200 * 16_384)
    trees = undefined
    await until(async () => {
      await collectGarbage()
      return keptBytes() < before + kept / 10
    })
  })

  it('are right for more trees and rows than are kept', async () => {
    const all = await Promise.all(Array.from({ length: 5 }, () => filled(4400, 850)))
    for (let round = 0; round < 2; round++) {
      for (const { store, tree } of all) {
        using snapshot = store.snapshot()
        for (let from = 0; from < 4390; from += 8) {
          const rows = await rowsIn(tree, snapshot, from, from + 2)
          if (from % 400 === 0) expect(rows).toEqual(expectedRows(from, from + 2, 850))
        }
      }
    }
  })
})

describe('counts', () => {
  /** Every third row weighs nothing. */
  const weightOf = (value: Buffer) => value[0]!
  const weighs = (row: number) => (row % 3 === 0 ? 0 : 1)

  async function weighed(rows: number): Promise<Filled> {
    const store = await new MemoryEngine().create('store')
    const tree = new RankTree({ rowPrefix: ROWS, nodePrefix: NODES, salt: Buffer.from('whatever'), weightOf })
    const builder = tree.builder()
    const puts: [Buffer, Buffer][] = []
    for (let row = 0; row < rows; row++) {
      const value = Buffer.of(weighs(row))
      builder.add(keyOf(row), value)
      puts.push([Buffer.concat([ROWS, keyOf(row)]), value])
    }
    await store.commit({ puts: [...puts, ...(await builder.finish())] })
    return { store, tree }
  }

  const rankOf = (row: number) => row - Math.ceil(row / 3)

  it('are the same however often they are asked for', async () => {
    const { store, tree } = await weighed(1000)
    using snapshot = store.snapshot()
    for (let round = 0; round < 4; round++) {
      for (let row = 0; row < 1000; row += 7) {
        expect(await tree.rank(snapshot, keyOf(row))).toBe(rankOf(row))
        const live = row % 3 === 0 ? row + 1 : row
        expect(await tree.select(snapshot, rankOf(live))).toEqual(keyOf(live))
      }
      expect(await tree.select(snapshot, rankOf(1000))).toBeUndefined()
    }
  })

  it('read nothing when they were asked for twice, and a newer state is read', async () => {
    const { store, tree } = await weighed(1000)
    using snapshot = store.snapshot()
    const counting = countingPages(snapshot)
    for (let round = 0; round < 2; round++) await tree.rank(counting.snapshot, keyOf(500))
    const before = counting.pages
    expect(await tree.rank(counting.snapshot, keyOf(500))).toBe(rankOf(500))
    expect(await tree.select(counting.snapshot, rankOf(500))).toEqual(keyOf(500))
    expect(counting.pages).toBe(before)

    const { puts, deletes } = await tree.planChanges(snapshot, [{ key: keyOf(499), before: 1, after: 0 }])
    await store.commit({ puts: [...puts, [Buffer.concat([ROWS, keyOf(499)]), Buffer.of(0)]], deletes })
    using newer = store.snapshot()
    for (let round = 0; round < 3; round++) {
      expect(await tree.rank(newer, keyOf(500))).toBe(rankOf(500) - 1)
      expect(await tree.rank(snapshot, keyOf(500))).toBe(rankOf(500))
    }
  })
})
