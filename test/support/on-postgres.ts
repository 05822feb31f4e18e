/** Tests that need a PostgreSQL; where there is none, they say so and are skipped. */
import { describe } from 'vitest'
import { findPostgres } from './postgres.ts'

export function describeOnPostgres(name: string, tests: () => void): void {
  const found = findPostgres()
  if ('missing' in found) process.stderr.write(`Skipped: ${name}. ${found.missing}\n`)
  // The server goes with the process: other files of tests may share it.
  describe.skipIf('missing' in found)(name, tests)
}
