import { expect, it } from 'vitest'
import { LongProgress } from '../../support/long-progress.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { EverythingRounds } from './everything-rounds.ts'

const KILLS = Number(process.env.SETTLE_KILLS ?? 300)

it('a server whose every part is at work has kept all that it promised after hundreds of kills', async () => {
  const rounds = new EverythingRounds(await temporaryFolder())
  const progress = new LongProgress('kills', KILLS)
  expect(await rounds.run(KILLS, { onKill: () => progress.done() })).toEqual([])
  for (const { acknowledgements, constructor: kind } of rounds.actors)
    expect(acknowledgements, kind.name).toBeGreaterThan(KILLS / 6)
})
