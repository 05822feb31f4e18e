import { describe } from 'vitest'
import { dialectOf } from '../../../src/storage/postgres/sql-dialect.ts'
import { describeOnPostgres } from '../../support/on-postgres.ts'
import { conformance } from './postgres-conformance.ts'

describeOnPostgres('the PostgreSQL engine, at length', () => {
  describe('as other engines', () => conformance({ sequences: 300 }))
  describe('in steps', () => conformance({ sequences: 100 }, { ...dialectOf(''), changesTableTwice: false }))
})
