import { describe, expect, it } from 'vitest'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { Random } from '../random.ts'
import { ViewRounds } from './view-rounds.ts'

/** Each takes half a minute, and more on a busy machine. */
const ROUNDS = 5

describe('an index whose server is killed dozens of times while it works on it', () => {
  it('is whole, and complete when it is asked for again', async () => {
    const random = new Random()
    const rounds = new ViewRounds(await temporaryFolder(), random, 20_000)
    const seed = `seed ${random.seed}`
    for (let round = 0; round < ROUNDS; round++) {
      expect(await rounds.build(4), seed).toEqual([])
      expect(await rounds.update(3), seed).toEqual([])
    }
    expect(rounds.seen.builds, seed).toBeGreaterThan(ROUNDS)
    expect(rounds.seen.updates, seed).toBeGreaterThan(ROUNDS / 2)
    expect(rounds.seen.keptRuns, seed).toBeGreaterThan(ROUNDS)
  })
})
