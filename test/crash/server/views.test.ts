import { describe, expect, it } from 'vitest'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { Random } from '../random.ts'
import { ViewRounds } from './view-rounds.ts'

describe('an index whose server is killed while it works on it', () => {
  it('is whole, and complete when it is asked for again', { timeout: 120_000 }, async () => {
    const random = new Random()
    const rounds = new ViewRounds(await temporaryFolder(), random)
    const seed = `seed ${random.seed}`
    expect(await rounds.build(2), seed).toEqual([])
    expect(await rounds.update(1), seed).toEqual([])
    // When it is killed is left to chance: on a quick machine it may have been too late each time.
    for (let tries = 0; tries < 3 && rounds.seen.builds + rounds.seen.updates === 0; tries++)
      expect(await rounds.update(1), seed).toEqual([])
  })
})
