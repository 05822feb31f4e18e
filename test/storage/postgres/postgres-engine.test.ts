import { describe } from 'vitest'
import { describeOnPostgres } from '../../support/on-postgres.ts'
import { conformance } from './postgres-conformance.ts'

describeOnPostgres('the PostgreSQL engine', () => {
  describe('as other engines', () => conformance({ scanRows: 40_000, sequences: 25 }))
})
