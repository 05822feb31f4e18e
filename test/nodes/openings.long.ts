import { expect, it } from 'vitest'
import { runSettle } from '../commands/run-settle.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { openWhileWriting } from './opening-rounds.ts'

/** Of each of them. */
const OPENINGS = Number(process.env.SETTLE_OPENINGS ?? 5000)

it('no commit is forgotten in thousands of openings by three secondaries', { timeout: 1_800_000 }, async () => {
  const dir = await temporaryFolder()
  const { writes, ...found } = await openWhileWriting(dir, 3, OPENINGS)
  expect(found).toEqual({ documents: writes, rows: writes, forgotten: 0 })
  expect(await runSettle(['check', '--dir', dir, '--quiet'])).toMatchObject({ code: 0 })
})
