import { describe, expect, it } from 'vitest'
import { killAndCheck } from './kill-rounds.ts'

describe('a process that is killed', () => {
  it('has kept every acknowledged commit and no half of one', { timeout: 300_000 }, async () => {
    const { problems, acknowledged } = await killAndCheck({ rounds: 5, atLeast: { committed: 50 } })
    expect(problems).toEqual([])
    expect(acknowledged.committed).toBeGreaterThanOrEqual(50)
  })

  it('has kept them while its stores were compacted', { timeout: 300_000 }, async () => {
    const { problems, acknowledged } = await killAndCheck({ rounds: 5, atLeast: { compacted: 3 }, compacts: true })
    expect(problems).toEqual([])
    expect(acknowledged.compacted).toBeGreaterThanOrEqual(3)
  })

  it('has the stores that were created and not those that were dropped', { timeout: 300_000 }, async () => {
    const { problems, acknowledged } = await killAndCheck({
      rounds: 5,
      atLeast: { dropped: 6 },
      compacts: true,
      shortLived: 3,
    })
    expect(problems).toEqual([])
    expect(acknowledged.dropped).toBeGreaterThanOrEqual(6)
  })
})

describe('the check of a killed process', () => {
  it('notices commits that were acknowledged before they were on disk', { timeout: 300_000 }, async () => {
    const { problems } = await killAndCheck({ rounds: 10, broken: 'early' })
    expect(problems.join()).toMatch(/lost commits/)
  })

  it('notices commits that are written in halves', { timeout: 300_000 }, async () => {
    const { problems } = await killAndCheck({ rounds: 10, broken: 'torn' })
    // Either one of which only half is there, or, where no kill fell in between, twice as many commits as were made.
    expect(problems.join()).toMatch(/half a commit|the version is \d+ after \d+ commits/)
  })
})
