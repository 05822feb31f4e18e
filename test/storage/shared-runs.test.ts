import { describe, expect, it } from 'vitest'
import { SharedRuns } from '../../src/storage/shared-runs.ts'

/** Runs that end when the test says so. */
function heldRuns(options?: { readonly longestMs: number }) {
  const ends: { resolve(run: number): void; reject(error: Error): void }[] = []
  const runs = new SharedRuns(() => {
    const { promise, ...end } = Promise.withResolvers<number>()
    ends.push(end)
    return promise
  }, options)
  return { runs, ends }
}

async function begins(ends: readonly unknown[], count: number): Promise<void> {
  while (ends.length < count) await new Promise(setImmediate)
}

describe('shared runs', () => {
  it('give all who come while one is under way the next one', async () => {
    const { runs, ends } = heldRuns()
    const first = runs.run()
    await begins(ends, 1)
    const later = [runs.run(), runs.run(), runs.run()]
    await new Promise(setImmediate)
    expect(ends).toHaveLength(1)
    ends[0]!.resolve(1)
    expect(await first).toBe(1)
    await begins(ends, 2)
    ends[1]!.resolve(2)
    expect(await Promise.all(later)).toEqual([2, 2, 2])
    expect(ends).toHaveLength(2)
  })

  it('go on after one that failed', async () => {
    const { runs, ends } = heldRuns()
    const first = runs.run()
    await begins(ends, 1)
    const second = runs.run()
    ends[0]!.reject(new Error('failed'))
    await expect(first).rejects.toThrow('failed')
    await begins(ends, 2)
    ends[1]!.resolve(2)
    expect(await second).toBe(2)
  })

  it('do not wait for one that takes too long', async () => {
    const { runs, ends } = heldRuns({ longestMs: 1 })
    const first = runs.run()
    await begins(ends, 1)
    const second = runs.run()
    await begins(ends, 2)
    ends[1]!.resolve(2)
    expect(await second).toBe(2)
    ends[0]!.resolve(1)
    expect(await first).toBe(1)
  })
})
