/** The conformance suite on PostgreSQL: each engine is a catalog of its own in one set of tables. */
import { afterAll } from 'vitest'
import { PostgresEngine } from '../../../src/storage/postgres/postgres-engine.ts'
import { PostgresServer } from '../../../src/storage/postgres/postgres-server.ts'
import type { SqlDialect } from '../../../src/storage/postgres/sql-dialect.ts'
import { sharedPostgres } from '../../support/postgres.ts'
import { describeEngine, type Extent } from '../conformance.ts'

export function conformance(extent: Extent, dialect?: SqlDialect): void {
  let opening: Promise<PostgresServer> | undefined
  let engines = 0
  const server = () => {
    opening ??= sharedPostgres().then((postgres) =>
      PostgresServer.open({ address: postgres.address(), ...(dialect && { dialect }) }),
    )
    return opening
  }
  afterAll(async () => (await opening)?.close())
  describeEngine('the PostgreSQL engine', async () => PostgresEngine.on(await server(), `test ${++engines}`), extent)
}
