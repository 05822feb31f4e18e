import { describe, expect, it } from 'vitest'
import { lateGrowth } from '../../support/private-memory.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { runOpenings } from './openings.ts'

/** What the allocator keeps grows in steps. What once leaked, 10 KB an opening, would be 25 MB from the middle on. */
const MOST_GROWTH_MB = 20
/** The allocator takes its time now and then; a leak is there every time. */
const MOST_ATTEMPTS = 3

describe.runIf(process.platform === 'linux')('stores that are opened and closed in turn', () => {
  it('leave no memory behind', { timeout: 600_000 }, async () => {
    const growths: number[] = []
    while (growths.length < MOST_ATTEMPTS && !growths.some((growth) => growth < MOST_GROWTH_MB)) {
      growths.push(lateGrowth(await runOpenings({ folder: await temporaryFolder(), stores: 30, openings: 6000 })))
    }
    expect(Math.min(...growths)).toBeLessThan(MOST_GROWTH_MB)
  })
})
