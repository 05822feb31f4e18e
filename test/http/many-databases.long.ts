import { expect, it } from 'vitest'
import { lateGrowth } from '../support/private-memory.ts'
import { memoryOver } from './many-databases.ts'

const MOST_GROWTH_MB = 60

it('168,000 requests to 3,000 databases, of which 500 are open, leave no memory behind', {
  timeout: 3_600_000,
}, async () => {
  const megabytes = await memoryOver({ databases: 3000, openAtMost: 500, requests: 168_000 })
  console.log(megabytes.map(Math.round))
  expect(lateGrowth(megabytes)).toBeLessThan(MOST_GROWTH_MB)
})
