import { expect, it } from 'vitest'
import { describeOnPostgres } from '../support/on-postgres.ts'
import { playReaders } from './read-rounds.ts'

describeOnPostgres('readers of all kinds, at length', () => {
  it.each([{}, { readConnections: 2 }, { endsSessions: true }, { readConnections: 2, endsSessions: true }])(
    'leave nothing behind when they are gone: %o',
    { timeout: 240_000 },
    async (options) => {
      const left = await playReaders({ seconds: 60, ...options })
      expect(left).toEqual({ transactions: 0, idleInTransaction: '0', rows: '0', failures: [] })
    },
  )
})
