import { describe, expect, it } from 'vitest'
import { lateGrowth } from '../../support/private-memory.ts'
import { memoryOver } from './many-databases.ts'

/** An opening that leaves 2 KB of objects behind makes 4 MB. */
const MOST_HELD_GROWTH_MB = 4
/** What the allocator keeps depends on how many files happened to be open at once, and grows in steps. */
const MOST_PRIVATE_MB = 600
/** The garbage collector and the allocator take their time now and then; a leak is there every time. */
const MOST_ATTEMPTS = 3

describe.runIf(process.platform === 'linux')('databases that are opened and closed in turn', () => {
  it('leave no memory behind', { timeout: 900_000 }, async () => {
    const growths: number[] = []
    const peaks: number[] = []
    while (growths.length < MOST_ATTEMPTS && !growths.some((growth) => growth < MOST_HELD_GROWTH_MB)) {
      const { heldMegabytes, privateMegabytes } = await memoryOver({ databases: 60, openAtMost: 5, requests: 4000 })
      growths.push(lateGrowth(heldMegabytes))
      peaks.push(Math.max(...privateMegabytes))
    }
    expect(Math.min(...growths)).toBeLessThan(MOST_HELD_GROWTH_MB)
    expect(Math.min(...peaks)).toBeLessThan(MOST_PRIVATE_MB)
  })
})
