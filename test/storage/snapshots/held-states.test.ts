import { describe, expect, it, onTestFinished } from 'vitest'
import { LmdbEngine } from '../../../src/storage/lmdb/lmdb-engine.ts'
import { rangeAfter } from '../../../src/storage/rows/stored-key.ts'
import {
  HeldStates,
  type HoldingLimits,
  type RenewableSnapshot,
} from '../../../src/storage/snapshots/renewable-snapshot.ts'
import { TooManyReadersError } from '../../../src/storage/storage-error.ts'
import type { KeyRange, Snapshot, Store } from '../../../src/storage/store.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { until } from '../../support/until.ts'

/** More than an engine has slots for readers of different states. */
const MANY = 1200

const bytes = (text: string) => Buffer.from(text)
const NUMBER = bytes('number')

async function newStore(): Promise<{ store: Store; drop(): Promise<void> }> {
  const engine = await LmdbEngine.open({ folder: await temporaryFolder() })
  onTestFinished(() => engine.close())
  return { store: await engine.create('test'), drop: () => engine.drop('test') }
}

async function setNumber(store: Store, number: number): Promise<void> {
  await store.commit({ puts: [[NUMBER, bytes(String(number))]] })
}

async function numberIn(snapshot: Snapshot): Promise<number> {
  return Number(await snapshot.get(NUMBER))
}

/** The states of a store; those that are open are released when the test ends. */
function holding(store: Store, limits: Partial<HoldingLimits> = {}): () => RenewableSnapshot {
  const held = new HeldStates(store, limits)
  return () => {
    const snapshot = held.snapshot()
    onTestFinished(() => snapshot.release())
    return snapshot
  }
}

describe('a held state', () => {
  it('stays as it is while its reader goes along', async () => {
    const { store } = await newStore()
    await setNumber(store, 1)
    const snapshot = holding(store)()
    await setNumber(store, 2)
    expect(await numberIn(snapshot)).toBe(1)
    expect(snapshot.renewals).toBe(0)
  })

  it('is released when its reader stalls, which then continues from the newest', async () => {
    const { store } = await newStore()
    await setNumber(store, 1)
    const snapshot = holding(store, { idleMs: 50 })()
    await setNumber(store, 2)
    await until(async () => (await stalled(snapshot, 100)) === 2)
    expect(snapshot.renewals).toBeGreaterThan(0)
  })

  /** What it reads after so long a break. */
  async function stalled(snapshot: Snapshot, breakMs: number): Promise<number> {
    const begun = performance.now()
    await until(async () => performance.now() - begun > breakMs)
    return numberIn(snapshot)
  }

  it('is released when its reader pauses and others wait for one', async () => {
    const { store } = await newStore()
    await setNumber(store, 1)
    const snapshot = holding(store, { idleMs: 60_000, isWaitedFor: () => true })()
    await setNumber(store, 2)
    await until(async () => (await stalled(snapshot, 100)) === 2)
  })

  it('is not released while it is pinned', async () => {
    const { store } = await newStore()
    await setNumber(store, 1)
    const open = holding(store, { idleMs: 0, idleStates: 1, growthBytes: 0 })
    const snapshot = open()
    const other = open()
    {
      using _outer = snapshot.pin()
      {
        using _inner = snapshot.pin()
        await setNumber(store, 2)
      }
      await until(async () => (await numberIn(other)) === 2)
      expect(await numberIn(snapshot)).toBe(1)
    }
    await until(async () => (await numberIn(snapshot)) === 2)
  })

  it('is released when there are too many, the longest idle one first', async () => {
    const { store } = await newStore()
    const open = holding(store, { idleStates: 2 })
    const snapshots: RenewableSnapshot[] = []
    for (let number = 1; number <= 4; number++) {
      await setNumber(store, number)
      snapshots.push(open())
    }
    await setNumber(store, 5)
    expect(await Promise.all(snapshots.slice(2).map(numberIn))).toEqual([3, 4])
    expect(await Promise.all(snapshots.slice(0, 2).map(numberIn))).toEqual([5, 5])
  })

  it('is released when the file grew too far, also under a reader that never pauses', async () => {
    const { store } = await newStore()
    await setNumber(store, 1)
    const open = holding(store, { growthBytes: 4 * 1024 * 1024 })
    const resting = open()
    const busy = open()
    await setNumber(store, 2)
    const large = Buffer.alloc(256 * 1024)
    await until(async () => {
      await store.commit({ puts: [[bytes('large'), large]] })
      return (await numberIn(busy)) === 2
    }, 20_000)
    expect(await numberIn(resting)).toBe(2)
    // Not at once: it may cost something.
    expect((await store.sizes()).fileBytes).toBeGreaterThan(4 * 1024 * 1024)
  })

  it('is kept when the store was dropped: nothing newer will come', async () => {
    const { store, drop } = await newStore()
    await setNumber(store, 1)
    const snapshot = holding(store, { idleMs: 0, growthBytes: 0 })()
    await drop()
    expect(snapshot.releaseState()).toBe(false)
    expect(await numberIn(snapshot)).toBe(1)
  })

  it('cannot be read from after it was released', async () => {
    const { store } = await newStore()
    const snapshot = holding(store)()
    snapshot.release()
    snapshot.release()
    await expect(snapshot.get(NUMBER)).rejects.toThrow('The snapshot was released.')
  })
})

describe('a range that continues in a newer state', () => {
  it.each([false, true])('has each row that was there all the time once (reverse: %s)', async (reverse) => {
    const { store } = await newStore()
    // Long keys lie in the order of their digests: what comes after a row is not what is greater.
    const keys = Array.from({ length: 40 }, (_, i) =>
      bytes(`${'k'.repeat(i % 2 ? 3000 : 1)}${String(i).padStart(3, '0')}`),
    )
    await store.commit({ puts: keys.map((key) => [key, bytes('')] as const) })
    const snapshot = holding(store)()
    const seen: string[] = []
    const range: KeyRange = { from: bytes('k'), to: bytes('l'), reverse }
    let page = await snapshot.page(range, { rows: 3 })
    while (page.length > 0) {
      for (let row = 0; row < page.length; row++) seen.push(page.key(row).toString())
      const last = page.key(page.length - 1)
      // The very row that it stopped at goes away.
      await store.commit({ deletes: [last] })
      snapshot.releaseState()
      page = await snapshot.page(rangeAfter(range, last), { rows: 3 })
    }
    expect(seen.toSorted()).toEqual(keys.map(String).toSorted())
  })
})

describe('the slots for readers', () => {
  it('are not used up by any number of stalled readers', async () => {
    const { store } = await newStore()
    const open = holding(store)
    const snapshots: RenewableSnapshot[] = []
    for (let number = 1; number <= MANY; number++) {
      await setNumber(store, number)
      snapshots.push(open())
    }
    using short = store.snapshot()
    expect(await numberIn(short)).toBe(MANY)
    for (const snapshot of snapshots) expect(await numberIn(snapshot)).toBeGreaterThan(0)
  })

  it('may run out all the same; then it is said, and over as soon as one is free', async () => {
    const { store } = await newStore()
    const taken: Snapshot[] = []
    onTestFinished(() => {
      for (const snapshot of taken) snapshot.release()
    })
    const takeAll = async () => {
      for (let number = 1; number <= MANY; number++) {
        await setNumber(store, number)
        taken.push(store.snapshot())
      }
    }
    await expect(takeAll()).rejects.toThrow(TooManyReadersError)
    await expect(store.sizes()).rejects.toThrow(TooManyReadersError)
    await setNumber(store, 0)
    taken.pop()?.release()
    using snapshot = store.snapshot()
    expect(await numberIn(snapshot)).toBe(0)
  })
})
