import { beforeAll, describe, expect, it } from 'vitest'
import { cutAndCheck, differencesFromReality, recordWriter } from './power-cuts.ts'
import { needStrace } from './system-calls.ts'

const RECORDINGS = 16
const CUTS = 200

beforeAll(needStrace, 300_000)

describe('thousands of power cuts', () => {
  it('lose nothing that was acknowledged and leave nothing half-written', async () => {
    for (let i = 0; i < RECORDINGS; i++) {
      const recording = await recordWriter({ commits: 8 + i, writersPerStore: 2 + 2 * (i % 4) })
      try {
        expect(await differencesFromReality(recording)).toEqual([])
        expect((await cutAndCheck(recording, { cuts: CUTS })).problems).toEqual([])
      } finally {
        await recording.discard()
      }
    }
  })
})
