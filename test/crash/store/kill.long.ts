import { describe, expect, it } from 'vitest'
import { killAndCheck } from './kill-rounds.ts'

describe('a process that is killed hundreds of times', () => {
  it('has kept every acknowledged commit and no half of one', async () => {
    expect((await killAndCheck({ rounds: 150 })).problems).toEqual([])
  })

  it('has kept them while its stores were compacted', async () => {
    expect((await killAndCheck({ rounds: 150, compacts: true })).problems).toEqual([])
  })

  it('has the stores that were created and not those that were dropped', async () => {
    expect((await killAndCheck({ rounds: 150, compacts: true, shortLived: 3 })).problems).toEqual([])
  })
})
