import { expect, it } from 'vitest'
import { describeOnPostgres } from '../support/on-postgres.ts'
import { playFaults } from './history-rounds.ts'

describeOnPostgres('three servers', () => {
  it('show one history while one is killed and one is cut off', { timeout: 240_000 }, async () => {
    const clients = { writers: 3, readers: 2, feeds: 2 }
    const { problems } = await playFaults({ faults: ['kill', 'cut off'], acknowledgedBetween: 15, clients })
    expect(problems).toEqual([])
  })
})
