/** The database whose documents say what is replicated. */
import type { Databases } from '../database/databases.ts'
import type { Log } from '../runtime/log.ts'
import { type AuthSettings, REPLICATOR_SECTION } from './auth-settings.ts'
import { REPLICATOR_DESIGN_ID, REPLICATOR_VALIDATION } from './replicator-design.ts'
import { ReplicatorGuard } from './replicator-guard.ts'
import { SystemDatabase } from './system-database.ts'

export function replicatorDatabase(databases: Databases, settings: AuthSettings, log: Log): SystemDatabase {
  return new SystemDatabase(databases, settings, log, {
    failure: 'The replicator database cannot be opened.',
    section: REPLICATOR_SECTION,
    key: 'db',
    name: () => settings.replicatorDatabase,
    guard: new ReplicatorGuard(),
    design: { id: REPLICATOR_DESIGN_ID, validation: REPLICATOR_VALIDATION },
  })
}
