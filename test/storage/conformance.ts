/** What every engine promises, as tests that run on each of them. */
import fc from 'fast-check'
import { describe, expect, it, onTestFinished } from 'vitest'
import { PackedRowsWriter } from '../../src/storage/rows/packed-rows.ts'
import { CUT_KEY_BYTES } from '../../src/storage/rows/stored-key.ts'
import { StoreExistsError, StoreGoneError, StoreMissingError } from '../../src/storage/storage-error.ts'
import type { Changes, KeyRange, Page, Snapshot, StorageEngine, Store } from '../../src/storage/store.ts'
import { asText, Model, readAll } from './model.ts'

export type MakeEngine = () => Promise<StorageEngine>

export interface Extent {
  /** Rows of the long scan. */
  readonly scanRows?: number
  /** Sequences of operations that are tried. */
  readonly sequences?: number
}

export function describeEngine(
  name: string,
  make: MakeEngine,
  { scanRows = 200_000, sequences = 60 }: Extent = {},
): void {
  async function engine(): Promise<StorageEngine> {
    const made = await make()
    onTestFinished(() => made.close())
    return made
  }
  async function store(): Promise<Store> {
    return (await engine()).create('store')
  }

  describe(name, () => {
    describe('stores', () => {
      it('are listed in byte order of their names', async () => {
        const stores = await engine()
        for (const each of ['b', 'a/b', '_users', 'ä', 'z', 'B', 'a+b', 'a.1']) await stores.create(each)
        expect(await stores.list()).toEqual(['B', '_users', 'a+b', 'a.1', 'a/b', 'b', 'z', 'ä'])
        expect(stores.has('a/b')).toBe(true)
        expect(stores.has('a')).toBe(false)
      })

      it('are created once, also when two ask at the same time', async () => {
        const stores = await engine()
        const results = await Promise.allSettled([stores.create('a'), stores.create('a')])
        expect(results.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected'])
        await expect(stores.create('a')).rejects.toThrow(StoreExistsError)
      })

      it('are missing before they are created and after they are dropped', async () => {
        const stores = await engine()
        await expect(stores.open('a')).rejects.toThrow(StoreMissingError)
        await expect(stores.drop('a')).rejects.toThrow(StoreMissingError)
        await stores.create('a')
        await stores.drop('a')
        await expect(stores.open('a')).rejects.toThrow(StoreMissingError)
        expect(await stores.list()).toEqual([])
      })

      it('report whether they are empty', async () => {
        const store = await (await engine()).create('a')
        expect(await store.isEmpty()).toBe(true)
        await store.commit({ puts: [row('k', 'v')] })
        expect(await store.isEmpty()).toBe(false)
      })

      it('are not opened while they are dropped', async () => {
        const stores = await engine()
        await stores.create('a')
        const dropping = stores.drop('a')
        const opened = await Promise.allSettled(Array.from({ length: 5 }, () => stores.open('a')))
        await dropping
        for (const each of opened) if (each.status === 'fulfilled') expect(each.value.dropped).toBe(true)
        await expect(stores.open('a')).rejects.toThrow(StoreMissingError)
        const fresh = await stores.create('a')
        expect(await stores.open('a')).toBe(fresh)
      })

      it('are the same object for everybody who opens them', async () => {
        const stores = await engine()
        expect(await stores.create('a')).toBe(await stores.open('a'))
      })

      it('can be dropped and created again while they are read', async () => {
        const stores = await engine()
        const old = await stores.create('a')
        await old.commit({ puts: [row('k', 'old')] })
        const snapshot = old.snapshot()
        await stores.drop('a')
        expect(old.dropped).toBe(true)
        const fresh = await stores.create('a')
        await fresh.commit({ puts: [row('k', 'new')] })
        expect((await snapshot.get(bytes('k')))?.toString()).toBe('old')
        expect(() => old.snapshot()).toThrow(StoreGoneError)
        await expect(old.commit({ puts: [row('k', 'lost')] })).rejects.toThrow(StoreGoneError)
        snapshot.release()
        using after = fresh.snapshot()
        expect((await after.get(bytes('k')))?.toString()).toBe('new')
        expect(fresh.dropped).toBe(false)
      })

      it('refuse commits that wait when they are dropped', async () => {
        const stores = await engine()
        const a = await stores.create('a')
        const commits = Array.from({ length: 20 }, (_, i) => a.commit({ puts: [row(`k${i}`, 'v')] }))
        const results = Promise.allSettled(commits)
        await stores.drop('a')
        for (const result of await results) {
          if (result.status === 'rejected') expect(result.reason).toBeInstanceOf(StoreGoneError)
        }
      })
    })

    describe('commits', () => {
      it('count up the version', async () => {
        const a = await store()
        using before = a.snapshot()
        expect(await before.version()).toBe(0)
        expect(await a.commit({ puts: [row('k', 'v')] })).toEqual({ outcome: 'committed', version: 1 })
        expect(await a.commit({ deletes: [bytes('k')] })).toEqual({ outcome: 'committed', version: 2 })
        using after = a.snapshot()
        expect(await after.version()).toBe(2)
        expect(await before.version()).toBe(0)
      })

      it('are stale when they expect another version, and change nothing', async () => {
        const a = await store()
        await a.commit({ puts: [row('k', '1')], expected: 0 })
        const stale = await a.commit({ puts: [row('k', '2'), row('l', '2')], deletes: [bytes('k')], expected: 0 })
        expect(stale).toEqual({ outcome: 'stale', version: 1 })
        using snapshot = a.snapshot()
        expect(asStrings(await readAll(snapshot, {}))).toEqual(['k=1'])
      })

      it('of rows that nothing refers to leave the version as it is', async () => {
        const a = await store()
        await a.commit({ puts: [row('k', '1')] })
        expect(await a.commit({ puts: [row('x', '1')], unreferenced: true })).toEqual({
          outcome: 'committed',
          version: 1,
        })
        const outcomes = await Promise.all([
          a.commit({ puts: [row('y', '1')], unreferenced: true }),
          a.commit({ puts: [row('k', '2')], expected: 1 }),
          a.commit({ puts: [row('z', '1')], unreferenced: true }),
        ])
        expect(outcomes.map(({ outcome }) => outcome)).toEqual(['committed', 'committed', 'committed'])
        using snapshot = a.snapshot()
        expect(asStrings(await readAll(snapshot, {}))).toEqual(['k=2', 'x=1', 'y=1', 'z=1'])
        expect(await snapshot.version()).toBe(2)
      })

      it('of many writers who expect the same version succeed once', async () => {
        const a = await store()
        const outcomes = await Promise.all(
          Array.from({ length: 30 }, (_, i) => a.commit({ puts: [row('k', String(i))], expected: 0 })),
        )
        expect(outcomes.filter(({ outcome }) => outcome === 'committed')).toHaveLength(1)
      })

      it('apply clears, then deletes, then puts', async () => {
        const a = await store()
        await a.commit({ puts: [row('a', '1'), row('b', '1'), row('c', '1')] })
        await a.commit({
          clears: [{ from: bytes('a'), to: bytes('c') }],
          deletes: [bytes('c'), bytes('b')],
          puts: [row('b', '2')],
        })
        using snapshot = a.snapshot()
        expect(asStrings(await readAll(snapshot, {}))).toEqual(['b=2'])
      })

      it('clear what an earlier one put, also when both wait together', async () => {
        const a = await store()
        await Promise.all([
          a.commit({ puts: [row('a', '1')] }),
          a.commit({ puts: [row('b', '1')] }),
          a.commit({ clears: [{}] }),
          a.commit({ puts: [row('c', '1')] }),
        ])
        using snapshot = a.snapshot()
        expect(asStrings(await readAll(snapshot, {}))).toEqual(['c=1'])
      })

      it('refuse empty keys and keys of the engine', async () => {
        const a = await store()
        await expect(a.commit({ puts: [[Buffer.alloc(0), Buffer.alloc(0)]] })).rejects.toThrow()
        await expect(a.commit({ deletes: [Buffer.of(0)] })).rejects.toThrow()
        using snapshot = a.snapshot()
        expect(await snapshot.version()).toBe(0)
      })

      it('take rows that lie in one block, after all others', async () => {
        const a = await store()
        const long = `d${'x'.repeat(3000)}`
        const packed = new PackedRowsWriter(16, 1)
        for (const each of [row('b', 'packed'), row('a', ''), row(long, 'long')]) packed.put(each)
        await a.commit({ puts: [row('b', 'old'), row('c', 'old')] })
        await a.commit({ clears: [{ from: bytes('c') }], deletes: [bytes('b')], puts: [row('b', 'put')], packed })
        using snapshot = a.snapshot()
        expect(asStrings(await readAll(snapshot, {}))).toEqual(['a=', 'b=packed', `${long}=long`])
        const refused = new PackedRowsWriter()
        refused.put([Buffer.of(0), Buffer.of(1)])
        await expect(a.commit({ packed: refused })).rejects.toThrow()
      })

      it('keep empty values and large ones', async () => {
        const a = await store()
        const large = Buffer.alloc(5_000_000, 'large')
        await a.commit({ puts: [[bytes('a'), Buffer.alloc(0)], [bytes('b'), large], row('c', 'after')] })
        using snapshot = a.snapshot()
        expect(await snapshot.get(bytes('a'))).toEqual(Buffer.alloc(0))
        expect(large.equals((await snapshot.get(bytes('b')))!)).toBe(true)
        const rows = await readAll(snapshot, {})
        expect(rows.map(({ value }) => value.length)).toEqual([0, 5_000_000, 5])
      })
    })

    describe('a replacement', () => {
      it('is seen whole, and not before it is', async () => {
        const target = await store()
        await target.commit({ puts: [row('a', 'old'), row('b', 'old')] })
        const seen: string[][] = []
        const look = async () => {
          using snapshot = target.snapshot()
          seen.push(asStrings(await readAll(snapshot, {})))
        }
        await target.replace(
          (async function* () {
            yield [row('b', 'new')]
            await look()
            yield [row('c', 'new')]
            await look()
          })(),
        )
        await look()
        const before = ['a=old', 'b=old']
        expect(seen).toEqual([before, before, ['b=new', 'c=new']])
      })

      it('takes rows that lie in one block, in any order and of any length', async () => {
        const target = await store()
        const keys = ['b', 'a', `c${'x'.repeat(60)}`, `d${'x'.repeat(3000)}`, `d${'x'.repeat(2999)}y`]
        const packed = new PackedRowsWriter(16)
        for (const [i, key] of keys.entries()) {
          const bytes = Buffer.from(key + 'v'.repeat(100 * i))
          packed.reserve(bytes.length)
          bytes.copy(packed.block, packed.end)
          packed.close(packed.end + key.length, packed.end + bytes.length)
        }
        await target.replace(
          (async function* () {
            yield [row('e', '1')]
            yield packed
            yield [row('f', '2')]
          })(),
        )
        using snapshot = target.snapshot()
        const expected = [...keys.map((key, i) => `${key}=${'v'.repeat(100 * i)}`), 'e=1', 'f=2']
        expect(asStrings(await readAll(snapshot, {})).toSorted()).toEqual(expected.toSorted())
      })

      it('that fails leaves everything as it was', async () => {
        const target = await store()
        await target.commit({ puts: [row('a', 'old')] })
        const replacing = target.replace(
          (async function* () {
            yield [row('b', 'new')]
            throw new Error('No more rows.')
          })(),
        )
        await expect(replacing).rejects.toThrow('No more rows.')
        await target.commit({ puts: [row('c', 'new')] })
        using snapshot = target.snapshot()
        expect(asStrings(await readAll(snapshot, {}))).toEqual(['a=old', 'c=new'])
      })
    })

    describe('snapshots', () => {
      it('stay the same during commits', async () => {
        const a = await store()
        await a.commit({ puts: [row('a', '1'), row('b', '1')] })
        using snapshot = a.snapshot()
        for (let i = 0; i < 20; i++) await a.commit({ puts: [row('a', `new ${i}`), row(`c${i}`, 'x')] })
        await a.commit({ clears: [{}] })
        expect(asStrings(await readAll(snapshot, {}))).toEqual(['a=1', 'b=1'])
        expect((await snapshot.get(bytes('a')))?.toString()).toBe('1')
      })

      it('can be shared, and go with the last who holds them', async () => {
        const a = await store()
        await a.commit({ puts: [row('a', '1')] })
        const first = a.snapshot()
        const shared = first.share()
        await a.commit({ puts: [row('a', '2')] })
        first.release()
        using third = shared.share()
        await a.compact()
        expect(asStrings(await readAll(shared, {}))).toEqual(['a=1'])
        expect(await shared.version()).toBe(1)
        shared.release()
        expect(asStrings(await readAll(third, {}))).toEqual(['a=1'])
        using now = a.snapshot()
        expect(asStrings(await readAll(now, {}))).toEqual(['a=2'])
      })

      it('see every commit that was acknowledged before', async () => {
        const a = await store()
        for (let i = 0; i < 50; i++) {
          await a.commit({ puts: [row('k', String(i))] })
          using snapshot = a.snapshot()
          expect((await snapshot.get(bytes('k')))?.toString()).toBe(String(i))
        }
      })

      it('give back values that are the reader’s own', async () => {
        const a = await store()
        await a.commit({ puts: [row('k', 'value')] })
        using snapshot = a.snapshot()
        const value = await snapshot.get(bytes('k'))
        value?.fill(0)
        expect((await snapshot.get(bytes('k')))?.toString()).toBe('value')
        const page = await snapshot.page({})
        page.value(0).fill(0)
        expect((await snapshot.get(bytes('k')))?.toString()).toBe('value')
      })

      it('end a page at its limits and return where to continue', async () => {
        const a = await store()
        const puts = Array.from({ length: 1000 }, (_, i) => row(`k${String(i).padStart(4, '0')}`, 'v'.repeat(100)))
        await a.commit({ puts })
        using snapshot = a.snapshot()
        expect((await snapshot.page({})).length).toBe(256)
        expect((await snapshot.page({}, { rows: 10 })).length).toBe(10)
        expect((await snapshot.page({}, { rows: 1000, bytes: 1050 })).length).toBe(10)
        expect((await snapshot.page({}, { rows: 1000, bytes: 1e6 })).next).toBeDefined()
        expect((await snapshot.page({}, { rows: 1001, bytes: 1e6 })).next).toBeUndefined()
        const keys = await snapshot.page({ from: bytes('k0500') }, { rows: 2, keysOnly: true })
        expect([keys.key(0).toString(), keys.key(1).toString(), keys.value(0).length]).toEqual(['k0500', 'k0501', 0])
        for (const reverse of [false, true]) {
          const all = await readAll(snapshot, { from: bytes('k0003'), to: bytes('k0900'), reverse }, 13)
          const expected = puts.slice(3, 900).map(([key]) => Buffer.from(key).toString())
          expect(all.map(({ key }) => key.toString())).toEqual(reverse ? expected.reverse() : expected)
        }
      })

      it('continue where each left off, however many scans take turns', async () => {
        const a = await store()
        const puts = Array.from({ length: 300 }, (_, i) => row(`k${String(i).padStart(4, '0')}`, 'v'))
        await a.commit({ puts })
        using one = a.snapshot()
        using other = a.snapshot()
        const expected = puts.map(([key]) => Buffer.from(key).toString())
        const scans = await Promise.all([
          readAll(one, {}, 7),
          readAll(one, { from: bytes('k0100') }, 3),
          readAll(other, { reverse: true }, 5),
          readAll(other, {}, 11),
        ])
        const found = scans.map((rows) => rows.map(({ key }) => key.toString()))
        expect(found).toEqual([expected, expected.slice(100), expected.toReversed(), expected])
      })

      it('answer many keys in their order', async () => {
        const a = await store()
        await a.commit({ puts: Array.from({ length: 700 }, (_, i) => row(`k${i}`, String(i))) })
        using snapshot = a.snapshot()
        const asked = ['k5', 'none', 'k699', ...Array.from({ length: 600 }, (_, i) => `k${i}`), 'k5']
        const values = await snapshot.getMany(asked.map(bytes))
        expect(values.map((value) => value?.toString())).toEqual(
          asked.map((key) => (key === 'none' ? undefined : key.slice(1))),
        )
      })
    })

    describe('long keys', () => {
      const long = (tail: string) => Buffer.concat([Buffer.alloc(CUT_KEY_BYTES, 'x'), Buffer.from(tail)])

      it('are found, replaced and deleted by the whole of them', async () => {
        const a = await store()
        await a.commit({ puts: [[long('1'), bytes('one')], [long('2'), bytes('two')], row('x', 'short')] })
        await a.commit({ puts: [[long('1'), bytes('uno')]] })
        await a.commit({ deletes: [long('2')] })
        using snapshot = a.snapshot()
        expect((await snapshot.get(long('1')))?.toString()).toBe('uno')
        expect(await snapshot.get(long('2'))).toBeUndefined()
        expect(await snapshot.get(long('3'))).toBeUndefined()
        const rows = await readAll(snapshot, {})
        expect(rows.map(({ key }) => key.length)).toEqual([1, CUT_KEY_BYTES + 1])
        expect(rows[1]?.value.toString()).toBe('uno')
        const keys = await snapshot.page({}, { keysOnly: true })
        expect(keys.key(1).equals(long('1'))).toBe(true)
      })

      it('are in a range exactly when the whole of them is', async () => {
        const a = await store()
        const keys = ['a', 'b', 'c', 'd'].map(long)
        const near = Buffer.alloc(CUT_KEY_BYTES - 5, 'x')
        await a.commit({ puts: [...keys, near, bytes('y')].map((key) => [key, bytes('v')] as const) })
        using snapshot = a.snapshot()
        const found = async (range: KeyRange) =>
          (await readAll(snapshot, range, 1)).map(({ key }) => key.subarray(-1).toString()).sort()
        expect(await found({ from: long('b'), to: long('d') })).toEqual(['b', 'c'])
        expect(await found({ from: long('b') })).toEqual(['b', 'c', 'd', 'y'])
        expect(await found({ to: long('b'), reverse: true })).toEqual(['a', 'x'])
        expect(await snapshot.count({ from: long('b'), to: long('d') })).toBe(2)
        await a.commit({ clears: [{ from: long('b'), to: long('d') }] })
        using after = a.snapshot()
        expect(asText(await readAll(after, {}))).toHaveLength(4)
      })
    })

    it('agrees with a sorted array on any sequence of operations', { timeout: 120_000 }, async () => {
      await fc.assert(
        fc.asyncProperty(fc.array(operation, { minLength: 1, maxLength: 40 }), async (operations) => {
          const stores = await make()
          try {
            await run(await stores.create('store'), operations)
          } finally {
            await stores.close()
          }
        }),
        { numRuns: sequences },
      )
    })

    it('does not block others during a long scan', async () => {
      const a = await store()
      const value = Buffer.alloc(40, 'v')
      for (let first = 0; first < scanRows; first += 20_000) {
        await a.commit({ puts: Array.from({ length: 20_000 }, (_, i) => [bytes(`k${first + i}`), value] as const) })
      }
      const keys = Array.from({ length: scanRows / 4 }, (_, i) => bytes(`k${i}`))
      using snapshot = a.snapshot()
      const read = async () => {
        let rows = 0
        for (let rest: KeyRange | undefined = {}; rest; ) {
          const page: Page = await snapshot.page(rest)
          rows += page.length
          rest = page.next
        }
        expect(rows).toBe(scanRows)
        await snapshot.getMany(keys)
      }
      // The machine may do other things at the same time; they do not hit every one of several tries.
      const standstills = [
        await longestStandstillMs(read),
        await longestStandstillMs(read),
        await longestStandstillMs(read),
      ]
      expect(Math.min(...standstills)).toBeLessThan(20)
    })
  })
}

/** The longest time that this thread worked without letting a timer run; what other processes took does not count. */
async function longestStandstillMs(work: () => Promise<void>): Promise<number> {
  let longest = 0
  let last = busyMs()
  const watch = () => {
    const now = busyMs()
    longest = Math.max(longest, now - last)
    last = now
  }
  const timer = setInterval(watch, 1)
  await work()
  watch()
  clearInterval(timer)
  return longest
}

function busyMs(): number {
  const { user, system } = process.threadCpuUsage()
  return (user + system) / 1000
}

function bytes(text: string): Buffer {
  return Buffer.from(text)
}

function row(key: string, value: string): readonly [Buffer, Buffer] {
  return [bytes(key), bytes(value)]
}

function asStrings(rows: readonly { key: Buffer; value: Buffer }[]): string[] {
  return rows.map(({ key, value }) => `${key}=${value}`)
}

/** Few different keys, so that operations meet; some are long, and share what precedes the cut. */
const key = fc
  .tuple(
    fc.integer({ min: 1, max: 4 }),
    fc.array(fc.integer({ min: 0, max: 3 }), { maxLength: 2 }),
    fc.constantFrom(0, 0, 0, 0, ...[-20, -16, -15, -8, -1, 0, 300].map((more) => CUT_KEY_BYTES + more)),
    fc.integer({ min: 0, max: 255 }),
  )
  .map(([first, more, length, last]) => {
    const filling = Buffer.alloc(Math.max(0, length - 1 - more.length), 0x55)
    return Buffer.concat([Buffer.of(first, ...more), filling, length > 0 ? Buffer.of(last) : Buffer.alloc(0)])
  })

const range: fc.Arbitrary<KeyRange> = fc.record({ from: key, to: key, reverse: fc.boolean() }, { requiredKeys: [] })

type Operation =
  | { kind: 'commit'; changes: Changes; expectation: 'none' | 'right' | 'wrong' }
  | { kind: 'freeze' }
  | { kind: 'read'; range: KeyRange; rows: number }
  | { kind: 'compact' }
  | { kind: 'replace'; portions: [Uint8Array, Uint8Array][][] }

const value = fc.uint8Array({ maxLength: 30 })

const operation: fc.Arbitrary<Operation> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant('commit' as const),
      changes: fc.record({
        clears: fc.oneof(
          { weight: 4, arbitrary: fc.constant([]) },
          { weight: 1, arbitrary: fc.array(range, { maxLength: 2 }) },
        ),
        deletes: fc.array(key, { maxLength: 3 }),
        puts: fc.array(fc.tuple(key, value), { maxLength: 6 }),
      }),
      expectation: fc.constantFrom('none' as const, 'right' as const, 'wrong' as const),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant('read' as const), range, rows: fc.integer({ min: 1, max: 5 }) }),
  },
  { weight: 1, arbitrary: fc.constant({ kind: 'freeze' as const }) },
  { weight: 1, arbitrary: fc.constant({ kind: 'compact' as const }) },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('replace' as const),
      portions: fc.array(fc.array(fc.tuple(key, value), { maxLength: 6 }), { maxLength: 3 }),
    }),
  },
)

async function* inPortions<T>(portions: readonly T[]): AsyncGenerator<T> {
  yield* portions
}

async function run(store: Store, operations: readonly Operation[]): Promise<void> {
  const model = new Model()
  const frozen: { snapshot: Snapshot; model: Model }[] = []
  for (const each of operations) {
    if (each.kind === 'commit') {
      const expected = { none: undefined, right: model.version, wrong: model.version + 1 }[each.expectation]
      const outcome = await store.commit(expected === undefined ? each.changes : { ...each.changes, expected })
      if (each.expectation === 'wrong') expect(outcome).toEqual({ outcome: 'stale', version: model.version })
      else {
        model.commit(each.changes)
        expect(outcome).toEqual({ outcome: 'committed', version: model.version })
      }
    } else if (each.kind === 'freeze') frozen.push({ snapshot: store.snapshot(), model: model.copy() })
    else if (each.kind === 'compact') await store.compact()
    else if (each.kind === 'replace') {
      await store.replace(inPortions(each.portions))
      model.commit({ clears: [{}], puts: each.portions.flat() })
    } else {
      using snapshot = store.snapshot()
      expect(asText(await readAll(snapshot, each.range, each.rows))).toEqual(asText(model.range(each.range)))
      expect(await snapshot.count(each.range)).toBe(model.range(each.range).length)
    }
  }
  frozen.push({ snapshot: store.snapshot(), model })
  for (const { snapshot, model: then } of frozen) {
    expect(await snapshot.version()).toBe(then.version)
    expect(asText(await readAll(snapshot, {}))).toEqual(asText(then.rows))
    const values = await snapshot.getMany(then.rows.map((each) => each.key))
    expect(values.map((each) => each?.toString('hex'))).toEqual(then.rows.map((each) => each.value.toString('hex')))
    snapshot.release()
  }
}
