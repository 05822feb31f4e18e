import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { Deadlines } from '../../src/runtime/deadlines.ts'

function fakeTime(): void {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
  onTestFinished(() => {
    vi.useRealTimers()
  })
}

/** What passed, as `name@milliseconds`. */
function recorder(deadlines: Deadlines) {
  const passed: string[] = []
  const begunMs = performance.now()
  const deadline = (name: string, afterMs: number) =>
    deadlines.deadline(afterMs, () => passed.push(`${name}@${performance.now() - begunMs}`))
  return { passed, deadline }
}

describe('deadlines', () => {
  it('pass once, when they are started, and not too late', () => {
    fakeTime()
    const { passed, deadline } = recorder(new Deadlines())
    deadline('never', 10)
    deadline('b', 20).restart()
    deadline('a', 5).restart()
    deadline('c', 60_000).restart()
    vi.advanceTimersByTime(120_000)
    expect(passed.slice(0, 2)).toEqual(['a@5', 'b@20'])
    const late = Number(passed[2]?.split('@')[1])
    expect(late).toBeGreaterThanOrEqual(60_000)
    expect(late).toBeLessThan(62_000)
    expect(passed).toHaveLength(3)
  })

  it('start again when they are restarted, before their time and after it', () => {
    fakeTime()
    const { passed, deadline } = recorder(new Deadlines())
    const each = deadline('a', 20)
    each.restart()
    vi.advanceTimersByTime(15)
    each.restart()
    vi.advanceTimersByTime(15)
    expect(passed).toEqual([])
    vi.advanceTimersByTime(5)
    expect(passed).toEqual(['a@35'])
    each.restart()
    vi.advanceTimersByTime(20)
    expect(passed).toEqual(['a@35', 'a@55'])
  })

  it('do not pass once they are cancelled', () => {
    fakeTime()
    const { passed, deadline } = recorder(new Deadlines())
    const each = deadline('a', 20)
    each.cancel()
    each.restart()
    each.cancel()
    vi.advanceTimersByTime(100)
    expect(passed).toEqual([])
    expect(vi.getTimerCount()).toBe(0)
  })

  it('may be longer than any timer', () => {
    fakeTime()
    const { passed, deadline } = recorder(new Deadlines())
    deadline('a', 2 ** 33).restart()
    vi.advanceTimersByTime(2 ** 33 - 1)
    expect(passed).toEqual([])
    vi.advanceTimersByTime(2 ** 30)
    expect(passed).toHaveLength(1)
  })

  it('need one timer, however many there are', () => {
    fakeTime()
    const deadlines = new Deadlines()
    const { passed, deadline } = recorder(deadlines)
    for (let i = 0; i < 10_000; i++) {
      deadline(`${i}`, 30_000 + (i % 100)).restart()
      if (i % 1000 === 0) vi.advanceTimersByTime(1)
      expect(vi.getTimerCount()).toBe(1)
    }
    vi.advanceTimersByTime(40_000)
    expect(passed).toHaveLength(10_000)
    expect(new Set(passed.map((each) => each.split('@')[1])).size).toBeLessThan(5)
    expect(vi.getTimerCount()).toBe(0)
  })
})
