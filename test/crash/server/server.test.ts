import { rm } from 'node:fs/promises'
import { describe, expect, it } from 'vitest'
import { copyFolder } from '../../support/copy-folder.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { ServerRounds } from './server-rounds.ts'

/** Only what hangs takes so long. */
const HANG_MS = 900_000

describe('a server that is killed while clients write', () => {
  // Kills over all parts are in `everything`; hundreds of these in the long tests.
  it('has kept all that it acknowledged, and nothing by halves, while its databases were compacted', {
    timeout: HANG_MS,
  }, async () => {
    const rounds = new ServerRounds({ folder: await temporaryFolder(), compacts: true })
    expect(await rounds.run(2)).toEqual([])
    while (rounds.acknowledged < 50 || rounds.compactions < 2) expect(await rounds.round()).toEqual([])
  })

  it('would be found out if it forgot a round', { timeout: HANG_MS }, async () => {
    const folder = await temporaryFolder()
    const earlier = await temporaryFolder()
    const rounds = new ServerRounds({ folder })
    while (rounds.acknowledged === 0) expect(await rounds.round()).toEqual([])
    await copyFolder(folder, earlier)
    for (const before = rounds.acknowledged; rounds.acknowledged < before + 20; ) {
      expect(await rounds.round()).toEqual([])
    }
    await rm(folder, { recursive: true })
    await copyFolder(earlier, folder)
    expect(await rounds.inspect()).not.toEqual([])
  })
})
