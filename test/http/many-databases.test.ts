import { describe, expect, it } from 'vitest'
import { lateGrowth } from '../support/private-memory.ts'
import { memoryOver } from './many-databases.ts'

/** An opening that leaves 2 KB of objects behind makes 4 MB. */
const MOST_HELD_GROWTH_MB = 4
/** What the allocator keeps depends on how many files happened to be open at once, and grows in steps. */
const MOST_PRIVATE_MB = 600

describe.runIf(process.platform === 'linux')('databases that are opened and closed in turn', () => {
  // The garbage collector and the allocator take their time now and then; a leak is there every time.
  it('leave no memory behind', { timeout: 300_000, retry: 2 }, async () => {
    const { heldMegabytes, privateMegabytes } = await memoryOver({ databases: 60, openAtMost: 5, requests: 4000 })
    expect(lateGrowth(heldMegabytes)).toBeLessThan(MOST_HELD_GROWTH_MB)
    expect(Math.max(...privateMegabytes)).toBeLessThan(MOST_PRIVATE_MB)
  })
})
