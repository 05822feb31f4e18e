import { expect, it } from 'vitest'
import { lateGrowth } from '../../support/private-memory.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { runOpenings } from './openings.ts'

const MOST_GROWTH_MB = 40

it('60,000 openings of 300 stores leave no memory behind', { timeout: 3_600_000 }, async () => {
  const megabytes = await runOpenings({ folder: await temporaryFolder(), stores: 300, openings: 60_000 })
  console.log(megabytes.map(Math.round))
  expect(lateGrowth(megabytes)).toBeLessThan(MOST_GROWTH_MB)
})
