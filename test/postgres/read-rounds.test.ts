import { expect, it } from 'vitest'
import { describeOnPostgres } from '../support/on-postgres.ts'
import { playReaders } from './read-rounds.ts'

describeOnPostgres('readers of all kinds', () => {
  it('leave nothing behind when they are gone', async () => {
    const left = await playReaders({ seconds: 10 })
    expect(left).toEqual({ transactions: 0, idleInTransaction: '0', rows: '0', failures: [] })
  })
})
