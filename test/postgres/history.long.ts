import { expect, it } from 'vitest'
import { describeOnPostgres } from '../support/on-postgres.ts'
import { type Fault, playFaults } from './history-rounds.ts'

/** How often all faults are played. */
const ROUNDS = Number(process.env.SETTLE_HISTORY_ROUNDS ?? 10)
const FAULTS: readonly Fault[] = ['kill', 'cut off', 'restart', 'kill', 'crash', 'cut off', 'failover']

describeOnPostgres('three servers, at length', () => {
  it('show one history while they are killed and cut off, and PostgreSQL restarts and fails over', async () => {
    const faults = Array.from({ length: ROUNDS }, () => FAULTS).flat()
    const { problems, acknowledged, reads, conflicts, refused, broken } = await playFaults({
      faults,
      acknowledgedBetween: 100,
    })
    const counts = { faults: faults.length, acknowledged, reads, conflicts, refused, broken }
    process.stderr.write(`history: ${JSON.stringify(counts)}\n`)
    expect(problems).toEqual([])
    expect(refused).toBeGreaterThan(0)
  })
})
