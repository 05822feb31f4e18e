import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { MemoryEngine } from '../../../src/storage/memory/memory-engine.ts'
import type { SharedSnapshot } from '../../../src/storage/store.ts'
import { newState } from '../../../src/views/layout/index-state.ts'
import { RecentState } from '../../../src/views/reading/published-index.ts'

describe('the state that was read last', () => {
  async function snapshot(): Promise<{ snapshot: SharedSnapshot; release: ReturnType<typeof vi.fn> }> {
    const store = await new MemoryEngine().create('index')
    const made = store.snapshot()
    const release = vi.fn()
    made.release = release
    return { snapshot: made, release }
  }

  it('is kept for a moment', async () => {
    vi.useFakeTimers()
    onTestFinished(() => void vi.useRealTimers())
    const recent = new RecentState()
    const first = await snapshot()
    const state = newState('uuid', 1, 0)
    recent.keep({ snapshot: first.snapshot, state })
    expect(recent.current?.state).toBe(state)
    vi.advanceTimersByTime(15)
    expect(recent.current?.state).toBe(state)
    expect(first.release).not.toHaveBeenCalled()
    vi.advanceTimersByTime(10)
    expect(recent.current).toBeUndefined()
    expect(first.release).toHaveBeenCalledOnce()
  })

  it('is replaced by a newer one, and dropped when it is outdated', async () => {
    const recent = new RecentState()
    const [first, second] = [await snapshot(), await snapshot()]
    recent.keep({ snapshot: first.snapshot, state: newState('uuid', 1, 0) })
    recent.keep({ snapshot: second.snapshot, state: newState('uuid', 1, 0) })
    expect(first.release).toHaveBeenCalledOnce()
    expect(recent.current?.snapshot).toBe(second.snapshot)
    recent.forget()
    recent.forget()
    expect(second.release).toHaveBeenCalledOnce()
    expect(recent.current).toBeUndefined()
  })
})
