/** Tests that need a PostgreSQL; where there is none, they say so and are skipped. */
import { afterAll, describe } from 'vitest'
import { findPostgres, sharedPostgres } from './postgres.ts'

export function describeOnPostgres(name: string, tests: () => void): void {
  const found = findPostgres()
  if ('missing' in found) process.stderr.write(`Skipped: ${name}. ${found.missing}\n`)
  describe.skipIf('missing' in found)(name, () => {
    afterAll(async () => (await sharedPostgres()).remove())
    tests()
  })
}
