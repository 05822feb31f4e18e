import { describe, expect, it } from 'vitest'
import { lateGrowth } from '../support/private-memory.ts'
import { memoryOver } from './many-databases.ts'

/** The first openings fill what the allocator keeps. A leak of 10 KB an opening would be 16 MB from there on. */
const MOST_GROWTH_MB = 8

describe.runIf(process.platform === 'linux')('databases that are opened and closed in turn', () => {
  it('leave no memory behind', { timeout: 180_000 }, async () => {
    const megabytes = await memoryOver({ databases: 60, openAtMost: 5, requests: 4000 })
    if (process.env.SETTLE_SHOW) console.log(megabytes.map(Math.round))
    expect(lateGrowth(megabytes)).toBeLessThan(MOST_GROWTH_MB)
  })
})
