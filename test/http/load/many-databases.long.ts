import { expect, it } from 'vitest'
import { lateGrowth } from '../../support/private-memory.ts'
import { memoryOver } from './many-databases.ts'

const MOST_HELD_GROWTH_MB = 20
/** Before, it rose to 1.84 GB. */
const MOST_PRIVATE_MB = 1200

it('168,000 requests to 3,000 databases, of which 500 are open, leave no memory behind', {
  timeout: 3_600_000,
}, async () => {
  const { heldMegabytes, privateMegabytes } = await memoryOver({ databases: 3000, openAtMost: 500, requests: 168_000 })
  console.log(heldMegabytes.map(Math.round), privateMegabytes.map(Math.round))
  expect(lateGrowth(heldMegabytes)).toBeLessThan(MOST_HELD_GROWTH_MB)
  expect(Math.max(...privateMegabytes)).toBeLessThan(MOST_PRIVATE_MB)
})
