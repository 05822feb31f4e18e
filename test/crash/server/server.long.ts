import { describe, expect, it } from 'vitest'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { ServerRounds } from './server-rounds.ts'

// The rounds have limits, all of them together have none.
describe('a server that is killed hundreds of times while clients write', () => {
  it('has kept all that it acknowledged, and nothing by halves', { timeout: 0 }, async () => {
    expect(await new ServerRounds({ folder: await temporaryFolder() }).run(200)).toEqual([])
  })

  it('has kept it while its databases were compacted', { timeout: 0 }, async () => {
    expect(await new ServerRounds({ folder: await temporaryFolder(), compacts: true }).run(200)).toEqual([])
  })
})
