/** Batches of one index that are put behind each other in a process: none has to suffer for another. */
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import type { MapProgram, MappedBatch } from '../../src/functions/functions.ts'
import { SandboxPool } from '../../src/functions/sandbox/sandbox-pool.ts'
import { silentLog } from '../../src/runtime/log/log.ts'
import { until } from '../support/until.ts'
import { sandboxPids } from './sandbox-pids.ts'
import { functionsOfTest, mapsOf, rowsOf, type TestFunctions } from './test-functions.ts'

const follows = { programKey: 'map', mayFollow: true }

function poolOfTest(limit = 1): SandboxPool {
  const pool = new SandboxPool({ log: silentLog, limit: () => limit })
  onTestFinished(() => pool.close())
  return pool
}

/** What has been served by now. */
async function isServed(place: Promise<unknown>): Promise<boolean> {
  const pending = Symbol('pending')
  return (await Promise.race([place, Promise.resolve(pending)])) !== pending
}

describe('a place', () => {
  it('is given to two batches of one program, and no more', async () => {
    const pool = poolOfTest()
    const first = await pool.take({ owner: 'a' }, follows)
    expect(await pool.take({ owner: 'a' }, follows)).toBe(first)
    const third = pool.take({ owner: 'a' }, follows)
    expect(await isServed(third)).toBe(false)
    pool.giveBack(first)
    expect(await third).toBe(first)
    pool.giveBack(first)
    pool.giveBack(first)
  })

  it.each([
    ['of another program', { ...follows, programKey: 'other' }],
    ['that may not follow', { ...follows, mayFollow: false }],
  ])('is not given to a second call %s', async (_, wish) => {
    const pool = poolOfTest()
    const first = await pool.take({ owner: 'a' }, follows)
    const second = pool.take({ owner: 'a' }, wish)
    expect(await isServed(second)).toBe(false)
    pool.giveBack(first)
    expect(await second).toBe(first)
    pool.giveBack(first)
  })

  it('is not given to a second batch while it is the turn of somebody else', async () => {
    const pool = poolOfTest()
    const first = await pool.take({ owner: 'a' }, follows)
    const other = pool.take({ owner: 'b' }, { programKey: 'other', mayFollow: false })
    const second = pool.take({ owner: 'a' }, follows)
    expect(await isServed(second)).toBe(false)
    pool.giveBack(first)
    pool.giveBack(await other)
    pool.giveBack(await second)
  })
})

describe('another process', () => {
  it('is not started for a program that is not busy for long', async () => {
    const before = sandboxPids()
    const pool = poolOfTest(4)
    const [first, second] = await Promise.all([pool.take({ owner: 'a' }, follows), pool.take({ owner: 'a' }, follows)])
    expect(second).toBe(first)
    expect(sandboxPids().filter((pid) => !before.includes(pid))).toHaveLength(1)
  })

  it('is not started for one that waits for a processor', async () => {
    const pool = poolOfTest(4)
    const first = await pool.take({ owner: 'a' }, follows)
    advanceClock(1_000)
    expect(await pool.take({ owner: 'a' }, follows)).toBe(first)
  })

  it('is started for one that is busy for longer', async () => {
    const pool = poolOfTest(4)
    const first = await pool.take({ owner: 'a' }, follows)
    advanceClock(3_000)
    const other = await pool.take({ owner: 'a' }, follows)
    expect(other).not.toBe(first)
    expect(first.isRunning && other.isRunning).toBe(true)
  })

  it('is started for other programs at once', async () => {
    const pool = poolOfTest(4)
    const wishes = ['one', 'two'].map((programKey) => pool.take({ owner: 'a' }, { programKey, mayFollow: true }))
    const [one, two] = await Promise.all(wishes)
    expect(two).not.toBe(one)
  })
})

function advanceClock(milliseconds: number): void {
  const now = performance.now.bind(performance)
  const clock = vi.spyOn(performance, 'now').mockImplementation(() => now() + milliseconds)
  onTestFinished(() => {
    clock.mockRestore()
  })
}

const program = mapsOf(`function(doc) {
  if (doc.says) log(doc.says)
  if (doc.fatal) throw ["fatal", "my_error", "my reason"]
  if (doc.bomb) for (var a = [];;) a = [a, a.slice(), new Array(1e6).join(a.length)]
  for (var end = Date.now() + (doc.ms || 0); Date.now() < end;);
  emit(doc.n)
}`)

interface TestDocument {
  readonly n?: number
  readonly ms?: number
  readonly says?: string
  readonly fatal?: boolean
  readonly bomb?: boolean
}

const ENDLESS = { ms: 1e6, says: 'begun' }

/** In the process that all calls of a test share. */
function mapped(functions: TestFunctions, document: TestDocument, signal?: AbortSignal): Promise<MappedBatch> {
  return functions.map(program, [Buffer.from(JSON.stringify(document))], { owner: 'test', signal })
}

async function keysOf(batch: Promise<MappedBatch>): Promise<unknown[]> {
  return rowsOf(await batch).map(({ key }) => key)
}

async function begun(functions: TestFunctions): Promise<void> {
  await until(() => functions.lines.length > 0)
}

async function oneProcess(timeoutMs: number): Promise<TestFunctions> {
  const functions = functionsOfTest({ processLimit: 1, timeoutMs, isolateMemoryMb: 32 })
  await mapped(functions, { n: 0 })
  return functions
}

describe('a batch behind another', () => {
  // A short timeout only where it is needed: on a loaded machine the good call could exceed it too.
  it.each<[string, TestDocument, number, object]>([
    ['takes too long', ENDLESS, 1000, { reason: 'OS process timed out.' }],
    ['brings its process down', { bomb: true }, 1000, { error: 'os_process_error' }],
    ['asks for the end of its process', { fatal: true }, 30_000, { error: 'my_error' }],
  ])('is answered where the first one %s', async (_, document, timeoutMs, error) => {
    const functions = await oneProcess(timeoutMs)
    const bad = mapped(functions, document)
    const good = keysOf(mapped(functions, { n: 1 }))
    await expect(bad).rejects.toMatchObject(error)
    expect(await good).toEqual([1])
  })

  it('has its time from its turn on', async () => {
    const functions = await oneProcess(400)
    const batches = Array.from({ length: 4 }, (_, n) => keysOf(mapped(functions, { n, ms: 300 })))
    expect(await Promise.all(batches)).toEqual([[0], [1], [2], [3]])
    expect(functions.causes).toEqual([])
  })

  it('fails alone', async () => {
    const functions = await oneProcess(400)
    const good = keysOf(mapped(functions, { n: 1, ms: 100 }))
    const bad = mapped(functions, ENDLESS)
    expect(await good).toEqual([1])
    await expect(bad).rejects.toMatchObject({ reason: 'OS process timed out.' })
  })

  it('is answered where the first one is given up', async () => {
    const functions = await oneProcess(30_000)
    const controller = new AbortController()
    const first = mapped(functions, ENDLESS, controller.signal)
    const second = keysOf(mapped(functions, { n: 1 }))
    await begun(functions)
    controller.abort(new Error('enough'))
    await expect(first).rejects.toThrow('enough')
    expect(await second).toEqual([1])
  })

  it('may be cancelled, and the first one continues', async () => {
    const functions = await oneProcess(30_000)
    const controller = new AbortController()
    // Longer than what a call that is given up is granted.
    const first = keysOf(mapped(functions, { n: 1, ms: 300, says: 'begun' }))
    const second = mapped(functions, ENDLESS, controller.signal)
    await begun(functions)
    controller.abort(new Error('enough'))
    expect(await first).toEqual([1])
    await expect(second).rejects.toThrow('enough')
    expect(await keysOf(mapped(functions, { n: 2 }))).toEqual([2])
  })

  it('is answered in the order of the calls, with its own rows', async () => {
    const functions = await oneProcess(5000)
    const calls = Array.from({ length: 50 }, (_, n) => keysOf(mapped(functions, { n })))
    expect(await Promise.all(calls)).toEqual(calls.map((_, n) => [n]))
  })
})

it('closing ends all of them', async () => {
  const functions = await oneProcess(30_000)
  const calls = [mapped(functions, ENDLESS), mapped(functions, ENDLESS), mapped(functions, ENDLESS)]
  const outcomes = Promise.allSettled(calls)
  await begun(functions)
  await functions.close()
  for (const outcome of await outcomes) {
    expect(outcome).toMatchObject({ status: 'rejected', reason: { error: 'os_process_error' } })
  }
})

it('other programs wait for their turn', async () => {
  const functions = await oneProcess(5000)
  const other: MapProgram = mapsOf('function(doc) { emit(-doc.n) }')
  const order: string[] = []
  const call = async (name: string, batch: Promise<MappedBatch>) => {
    await batch
    order.push(name)
  }
  await Promise.all([
    ...Array.from({ length: 8 }, () => call('many', mapped(functions, { ms: 5 }))),
    call('one', functions.map(other, [Buffer.from('{"n":1}')], { owner: 'other' })),
  ])
  expect(order.indexOf('one')).toBeLessThan(4)
})
