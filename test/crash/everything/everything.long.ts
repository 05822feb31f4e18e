import { expect, it } from 'vitest'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { EverythingRounds } from './everything-rounds.ts'

it('a server whose every part is at work has kept all that it promised after 300 kills', async () => {
  const rounds = new EverythingRounds(await temporaryFolder())
  expect(await rounds.run(300)).toEqual([])
  for (const { acknowledgements, constructor: kind } of rounds.actors)
    expect(acknowledgements, kind.name).toBeGreaterThan(50)
})
