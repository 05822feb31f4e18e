import { expect, it } from 'vitest'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { killNodes } from './kill-rounds.ts'

it('keeps every acknowledged write, and shows one history, while nodes are killed a hundred times', async () => {
  const outcome = await killNodes({ folder: await temporaryFolder(), nodes: 4, kills: 100, acknowledgedBetween: 200 })
  expect(outcome.problems).toEqual([])
})
