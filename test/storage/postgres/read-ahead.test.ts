import { expect, it, onTestFinished, vi } from 'vitest'
import { Connection } from '../../../src/storage/postgres/connection.ts'
import { PostgresEngine } from '../../../src/storage/postgres/postgres-engine.ts'
import type { KeyRange, Page, PageLimits, Snapshot, Store } from '../../../src/storage/store.ts'
import { describeOnPostgres } from '../../support/on-postgres.ts'
import { sharedPostgres } from '../../support/postgres.ts'

const ROWS = 1000
const LIMITS: PageLimits = { rows: 100, readsOn: true }

const key = (number: number) => Buffer.from(`key ${String(number).padStart(4, '0')}`)
const value = (text: string | number) => Buffer.from(`value ${text}`)
const numbers = Array.from({ length: ROWS }, (_, i) => i)

async function filledStore(options: { readConnections?: number } = {}): Promise<Store> {
  const address = (await sharedPostgres()).address()
  const engine = await PostgresEngine.open({ address, ...options })
  onTestFinished(() => engine.close())
  const store = await engine.create('x')
  await store.commit({ puts: numbers.map((i) => [key(i), value(i)] as const) })
  return store
}

/** How many pages were asked for until now. */
function pagesAskedFor(): () => number {
  let pages = 0
  const { run } = Connection.prototype
  const running = vi.spyOn(Connection.prototype, 'run').mockImplementation(function (this: Connection, ...args) {
    if (args[0].name.startsWith('page_')) pages++
    return run.apply(this, args)
  })
  onTestFinished(() => running.mockRestore())
  return () => pages
}

async function readAll(snapshot: Snapshot, range: KeyRange, limits: PageLimits): Promise<string[]> {
  const rows: string[] = []
  for (let rest: KeyRange | undefined = range; rest; ) {
    const page: Page = await snapshot.page(rest, limits)
    for (let row = 0; row < page.length; row++) rows.push(`${page.key(row)}: ${page.value(row)}`)
    rest = page.next
  }
  return rows
}

describeOnPostgres('reading ahead', () => {
  it('asks for the next page before the reader does, and for each page once', async () => {
    const store = await filledStore()
    const asked = pagesAskedFor()
    using snapshot = store.snapshot()
    const first = await snapshot.page({}, LIMITS)
    expect(asked()).toBe(2)
    expect(await readAll(snapshot, first.next!, LIMITS)).toHaveLength(ROWS - 100)
    expect(asked()).toBe(ROWS / 100 + 1)
  })

  it('gives the rows of one state, in both directions, also of long keys', async () => {
    const store = await filledStore()
    const long = Array.from({ length: 300 }, (_, i) => Buffer.alloc(2500, `key 05${i % 10}${i}`))
    await store.commit({ puts: long.map((name, i) => [name, value(i)] as const) })
    for (const range of [{}, { reverse: true }, { from: key(200), to: key(700) }, { from: long[5]! }]) {
      using plain = store.snapshot()
      using ahead = store.snapshot()
      const before = await readAll(plain, range, { rows: 70 })
      const first = await ahead.page(range, { rows: 70, readsOn: true })
      await store.commit({ deletes: [key(300), key(600)], puts: [[key(400), value(`new ${before.length}`)]] })
      const rest = first.next ? await readAll(ahead, first.next, { rows: 70, readsOn: true }) : []
      expect(rest).toEqual(before.slice(first.length))
    }
  })

  it('has one page in memory for a reader that stalls, and none for one that wants no more', async () => {
    const store = await filledStore()
    const asked = pagesAskedFor()
    using stalled = store.snapshot()
    await stalled.page({}, LIMITS)
    using satisfied = store.snapshot()
    await satisfied.page({}, { rows: 100 })
    using other = store.snapshot()
    await other.get(key(1))
    expect(asked()).toBe(3)
  })

  it('gives its connection back while a page is still being read', async () => {
    const store = await filledStore({ readConnections: 1 })
    for (let round = 0; round < 20; round++) {
      const snapshot = store.snapshot()
      await snapshot.page({}, LIMITS)
      snapshot.release()
      await store.commit({ puts: [[key(0), value(`of round ${round}`)]] })
      using next = store.snapshot()
      expect(await next.get(key(0))).toEqual(value(`of round ${round}`))
    }
  })

  it('ends once a page was read in vain', async () => {
    const store = await filledStore()
    const asked = pagesAskedFor()
    using snapshot = store.snapshot()
    for (let number = 0; number < 500; number += 50) {
      expect((await snapshot.page({ from: key(number) }, LIMITS)).key(0)).toEqual(key(number))
    }
    expect(asked()).toBe(10 + 1)
  })
})
