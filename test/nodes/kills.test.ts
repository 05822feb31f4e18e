import { expect, it } from 'vitest'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { killNodes } from './kill-rounds.ts'

it('keeps every acknowledged write, and shows one history, while nodes are killed', { timeout: 240_000 }, async () => {
  const outcome = await killNodes({ folder: await temporaryFolder(), nodes: 3, kills: 2, acknowledgedBetween: 15 })
  expect(outcome.problems).toEqual([])
  expect(outcome.acknowledged).toBeGreaterThanOrEqual(45)
})
