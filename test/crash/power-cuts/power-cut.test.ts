import { beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { cutAndCheck, differencesFromReality, type Recording, type RecordOptions, recordWriter } from './power-cuts.ts'
import { needStrace } from './system-calls.ts'

/** Only what hangs takes so long. */
const HANG_MS = 900_000

beforeAll(needStrace, 300_000)

async function recording(options: RecordOptions): Promise<Recording> {
  const made = await recordWriter(options)
  onTestFinished(() => made.discard())
  return made
}

describe('a power cut', () => {
  it('loses nothing that was acknowledged and leaves nothing half-written', { timeout: HANG_MS }, async () => {
    const recorded = await recording({ commits: 12, writersPerStore: 6 })
    expect(await differencesFromReality(recorded)).toEqual([])
    const { problems, acknowledgements } = await cutAndCheck(recorded, { cuts: 40 })
    expect(problems).toEqual([])
    expect(acknowledgements).toBeGreaterThan(50)
  })
})

describe('the check of a power cut', () => {
  it('notices commits that were not flushed', { timeout: HANG_MS }, async () => {
    const { problems } = await cutAndCheck(await recording({ commits: 8, writersPerStore: 4, broken: 'unflushed' }), {
      cuts: 50,
    })
    expect(problems.join()).toMatch(/lost commits|half a commit|died|not open/)
  })

  it('notices names that were not flushed', { timeout: HANG_MS }, async () => {
    const recorded = await recording({ commits: 8, writersPerStore: 4 })
    const { problems } = await cutAndCheck(recorded, { cuts: 50, forgetsNames: true })
    expect(problems.join()).toMatch(/missing/)
  })
})
