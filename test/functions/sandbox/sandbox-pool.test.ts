import { constants, getPriority } from 'node:os'
import { describe, expect, it, onTestFinished } from 'vitest'
import { SandboxPool } from '../../../src/functions/sandbox/sandbox-pool.ts'
import type { SandboxProcess } from '../../../src/functions/sandbox/sandbox-process.ts'
import { silentLog } from '../../../src/runtime/log/log.ts'
import { until } from '../../support/until.ts'
import { killedAtRandom } from '../random-kills.ts'
import { sandboxPids } from '../sandbox-pids.ts'
import { designOf, functionsOfTest, mapsOf, run, type TestFunctions } from '../test-functions.ts'

const busyFor = (ms: number) => `function(doc) { var end = Date.now() + ${ms}; while (Date.now() < end); emit(1) }`

const map = (functions: TestFunctions, source: string, owner: string, signal?: AbortSignal) =>
  functions.map(mapsOf(source), [Buffer.from('{}')], { owner, signal })

describe('places', () => {
  it('are shared out in turns', async () => {
    const functions = functionsOfTest({ processLimit: 1 })
    const order: string[] = []
    const call = async (owner: string) => {
      await map(functions, busyFor(5), owner)
      order.push(owner)
    }
    await Promise.all([...Array.from({ length: 8 }, () => call('many')), call('one')])
    expect(order.indexOf('one')).toBeLessThan(3)
  })

  it('are not all for one owner', async () => {
    const functions = functionsOfTest({ processLimit: 4, timeoutMs: 10_000 })
    const controller = new AbortController()
    const hogs = Array.from({ length: 8 }, () =>
      map(functions, 'function() { while (true); }', 'hog', controller.signal),
    )
    expect((await map(functions, busyFor(1), 'other')).rows).toBe(1)
    controller.abort(new Error('enough'))
    for (const hog of await Promise.allSettled(hogs)) expect(hog).toMatchObject({ status: 'rejected' })
  })

  it('are left for a newcomer though many owners fill them with endless loops', async () => {
    const functions = functionsOfTest({ processLimit: 5, timeoutMs: 60_000 })
    const controller = new AbortController()
    let ended = 0
    const hogs = Array.from({ length: 12 }, (_, i) =>
      map(functions, 'function() { log("runs"); while (true); }', `hog ${i % 3}`, controller.signal).finally(() => {
        ended++
      }),
    )
    const settled = Promise.allSettled(hogs)
    await until(() => functions.lines.length >= 4)
    for (let i = 0; i < 3; i++) expect((await map(functions, busyFor(1), 'newcomer')).rows).toBe(1)
    expect([ended, functions.lines.length]).toEqual([0, 4])
    controller.abort(new Error('enough'))
    await settled
  })

  it('are as many as the configuration says', async () => {
    const before = sandboxPids().length
    const functions = functionsOfTest({ processLimit: 2 })
    let most = 0
    const calls = Array.from({ length: 12 }, async (_, owner) => {
      await map(functions, busyFor(10), `owner ${owner}`)
      most = Math.max(most, sandboxPids().length - before)
    })
    await Promise.all(calls)
    expect(most).toBeLessThanOrEqual(2)
  })
})

describe('a call that is given up', () => {
  it('while it waits does not run', async () => {
    const functions = functionsOfTest({ processLimit: 1 })
    const first = map(functions, busyFor(50), 'a')
    const controller = new AbortController()
    const second = functions.show(
      designOf({ shows: { x: 'function() { log("ran") }' } }),
      'x',
      { document: null, request: '{}' },
      { ...run, signal: controller.signal },
    )
    controller.abort(new Error('given up'))
    await expect(second).rejects.toThrow('given up')
    await first
    expect(functions.lines).toEqual([])
    await expect(map(functions, busyFor(1), 'a', controller.signal)).rejects.toThrow('given up')
  })

  it('while it runs frees its place', async () => {
    const functions = functionsOfTest({ processLimit: 1, timeoutMs: 30_000 })
    await map(functions, busyFor(1), 'a')
    const controller = new AbortController()
    const endless = map(functions, 'function() { log("runs"); while (true); }', 'a', controller.signal)
    await until(() => functions.lines.length > 0)
    controller.abort(new Error('given up'))
    await expect(endless).rejects.toThrow('given up')
    expect((await map(functions, busyFor(1), 'a')).rows).toBe(1)
  })
})

describe('a process that is killed from outside', () => {
  it('costs no call', async () => {
    const functions = functionsOfTest({ processLimit: 2 })
    expect(await killedAtRandom(functions, { kills: 6 })).toMatchObject({ kills: 6, wrong: 0, failed: 0 })
  })

  it('in the middle of a list is an error with the status', async () => {
    const functions = functionsOfTest({ processLimit: 1 })
    const before = new Set(sandboxPids())
    const list = await functions.list(
      designOf({ lists: { x: 'function() { getRow() }' } }),
      'x',
      { head: '{}', request: '{}' },
      run,
    )
    for (const pid of sandboxPids()) if (!before.has(pid)) process.kill(pid, 'SIGKILL')
    await expect(list.rows(['{}'])).rejects.toMatchObject({
      kind: 'failed',
      error: 'os_process_error',
      reason: '{exit_status,137}',
    })
  })
})

describe('who brought a process down', () => {
  const wish = { programKey: 'any', mayFollow: false }

  async function blamed(limit: number): Promise<{ pool: SandboxPool; used: SandboxProcess }> {
    const pool = new SandboxPool({ log: silentLog, limit: () => limit })
    onTestFinished(() => pool.close())
    const spoilt = await pool.take({ owner: 'bad' }, wish)
    spoilt.kill('time')
    await spoilt.exited
    pool.giveBack(spoilt)
    const used = await pool.take({ owner: 'good' }, wish)
    pool.giveBack(used)
    return { pool, used }
  }

  it('does not get the process of another, but a new one', async () => {
    const { pool, used } = await blamed(2)
    const started = await pool.take({ owner: 'bad' }, wish)
    expect(started).not.toBe(used)
    expect(await pool.take({ owner: 'good' }, wish)).toBe(used)
    pool.giveBack(started)
    expect(await pool.take({ owner: 'bad' }, wish)).toBe(started)
  })

  it('gets fewer than others, and all who did get no more than half', async () => {
    const pool = new SandboxPool({ log: silentLog, limit: () => 8 })
    onTestFinished(() => pool.close())
    const suspects = ['a', 'b', 'c', 'd', 'e']
    for (const owner of suspects) {
      const spoilt = await pool.take({ owner }, wish)
      spoilt.kill('time')
      await spoilt.exited
      pool.giveBack(spoilt)
    }
    const got: string[] = []
    const taken = [...suspects, ...suspects].map((owner) =>
      pool.take({ owner }, wish).then((sandbox) => {
        got.push(owner)
        return sandbox
      }),
    )
    const settled = Promise.allSettled(taken)
    const first = await Promise.all(taken.slice(0, 4))
    await pool.take({ owner: 'good' }, wish)
    expect(got).toEqual(['a', 'b', 'c', 'd'])
    for (const sandbox of first) pool.giveBack(sandbox)
    await Promise.all(taken.slice(4, 8))
    expect(got.slice(4).toSorted()).toEqual(['a', 'b', 'c', 'e'])
    await pool.close()
    await settled
  })

  it('gets it where no more can be started', async () => {
    const { pool, used } = await blamed(1)
    expect(await pool.take({ owner: 'bad' }, wish)).toBe(used)
  })
})

describe('a process that works for a while without a sign', () => {
  const show = { document: null, request: '{}' }

  it('comes last, and is not used again', { timeout: 120_000 }, async () => {
    const before = sandboxPids()
    const functions = functionsOfTest({ processLimit: 1, timeoutMs: 60_000 })
    const started = () => sandboxPids().filter((pid) => !before.includes(pid))
    const isLast = () => started().some((pid) => getPriority(pid) === constants.priority.PRIORITY_LOW)
    let slow: number[] = []
    // On a busy machine a call may be over before it was looked at: then a longer one is made.
    for (let workMs = 1000; slow.length === 0 && workMs < 30_000; workMs *= 2) {
      const source = `function() { for (var end = Date.now() + ${workMs}; Date.now() < end;); return "x" }`
      let isOver = false
      const answer = functions.show(designOf({ shows: { slow: source } }), 'slow', show, run).finally(() => {
        isOver = true
      })
      await until(() => isOver || isLast())
      if (!isOver) slow = started()
      expect(await answer).toEqual({ body: 'x' })
    }
    expect(slow).not.toEqual([])
    await map(functions, busyFor(1), 'a')
    expect(started()).not.toEqual(slow)
    expect(functions.causes).toEqual([])
  })
})

it('closing ends calls and processes', async () => {
  const before = sandboxPids().length
  const functions = functionsOfTest({ processLimit: 1, timeoutMs: 30_000 })
  const running = map(functions, 'function() { log("runs"); while (true); }', 'a')
  const waiting = map(functions, busyFor(1), 'b')
  await until(() => functions.lines.length > 0)
  await Promise.all([
    functions.close(),
    expect(running).rejects.toMatchObject({ error: 'os_process_error' }),
    expect(waiting).rejects.toMatchObject({ error: 'os_process_error' }),
  ])
  expect(sandboxPids()).toHaveLength(before)
  await expect(map(functions, busyFor(1), 'a')).rejects.toMatchObject({ error: 'os_process_error' })
})
