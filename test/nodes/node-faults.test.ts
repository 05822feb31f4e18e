import { expect, it } from 'vitest'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { playNodeFaults } from './node-fault-rounds.ts'

it('nodes keep every acknowledged write, and show one history, while they are killed and stopped', {
  timeout: 240_000,
}, async () => {
  const { problems } = await playNodeFaults({
    folder: await temporaryFolder(),
    nodes: 3,
    faults: ['kill secondary', 'stop and kill'],
    acknowledgedBetween: 15,
  })
  expect(problems).toEqual([])
})
