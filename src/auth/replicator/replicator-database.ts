/** The database whose documents say what is replicated. */
import type { Databases } from '../../database/databases.ts'
import type { Log } from '../../runtime/log/log.ts'
import { type AuthSettings, type ChangedSetting, REPLICATOR_SECTION } from '../auth-settings.ts'
import { SystemDatabase } from '../rights/system-database.ts'
import { isUsersName } from '../users/users-database.ts'
import { REPLICATOR_DESIGN_ID, REPLICATOR_VALIDATION } from './replicator-design.ts'
import { ReplicatorGuard } from './replicator-guard.ts'

export function replicatorDatabase(databases: Databases, settings: AuthSettings, log: Log): SystemDatabase {
  return new SystemDatabase(databases, settings, log, {
    failure: 'The replicator database cannot be opened.',
    isNamedBy: (change) => isReplicatorName(change) || isUsersName(change),
    // What keeps passwords of users must be under no other guard than theirs.
    name: () => (settings.replicatorDatabase === settings.usersDatabase ? undefined : settings.replicatorDatabase),
    guard: new ReplicatorGuard(),
    design: { id: REPLICATOR_DESIGN_ID, validation: REPLICATOR_VALIDATION },
  })
}

function isReplicatorName({ section, key }: ChangedSetting): boolean {
  return section === REPLICATOR_SECTION && key === 'db'
}
