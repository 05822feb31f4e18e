import { rm } from 'node:fs/promises'
import { describe, expect, it } from 'vitest'
import { copyFolder } from '../../support/copy-folder.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { Random } from '../random.ts'
import { EverythingRounds } from './everything-rounds.ts'

/** Only what hangs takes so long. */
const HANG_MS = 900_000

describe('a server whose every part is at work when it is killed', () => {
  it('has kept all that it promised, and nothing by halves', { timeout: HANG_MS }, async () => {
    const rounds = new EverythingRounds(await temporaryFolder())
    expect(await rounds.run(20, { wholeEvery: 10, startingShare: 0.4, longestLifeMs: 300 })).toEqual([])
    // Every part has done something, however slow the machine is.
    for (let lifeMs = 1_000; rounds.actors.some(({ acknowledgements }) => acknowledgements === 0); lifeMs *= 2) {
      expect(await rounds.live(lifeMs)).toEqual([])
    }
  })

  it('would be found out if it forgot what it did last', { timeout: HANG_MS }, async () => {
    const folder = await temporaryFolder()
    const earlier = await temporaryFolder()
    const rounds = new EverythingRounds(folder, new Random(1))
    expect(await rounds.live(300)).toEqual([])
    await copyFolder(folder, earlier)
    const before = rounds.actors.map(({ acknowledgements }) => acknowledgements)
    // Three: one of them sets three things in turn, each of which is to be missed.
    const isEnough = () =>
      rounds.actors.slice(0, 5).every(({ acknowledgements }, i) => acknowledgements >= before[i]! + 3)
    for (let lifeMs = 1_000; !isEnough(); lifeMs *= 2) expect(await rounds.live(lifeMs)).toEqual([])
    await rm(folder, { recursive: true })
    await copyFolder(earlier, folder)
    const problems = (await rounds.live(0)).join('\n')
    for (const what of [
      'The attachment',
      'the setting',
      'the security object',
      'the revision limit',
      'the last document',
    ]) {
      expect(problems.toLowerCase()).toContain(`${what.toLowerCase()} is`)
    }
  })
})
