import { describe, expect, it } from 'vitest'
import { lateGrowth } from '../support/private-memory.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { runOpenings } from './openings.ts'

/** The first few thousand openings fill what the allocator keeps. A leak of 10 KB an opening would be 16 MB from there on. */
const MOST_GROWTH_MB = 8

describe.runIf(process.platform === 'linux')('stores that are opened and closed in turn', () => {
  it('leave no memory behind', { timeout: 180_000 }, async () => {
    const megabytes = await runOpenings({ folder: await temporaryFolder(), stores: 30, openings: 4000 })
    expect(lateGrowth(megabytes)).toBeLessThan(MOST_GROWTH_MB)
  })
})
