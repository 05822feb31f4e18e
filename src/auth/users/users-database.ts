/** The database that holds the users. */
import type { Databases } from '../../database/databases.ts'
import type { Log } from '../../runtime/log/log.ts'
import { AUTH_SECTION, type AuthSettings, type ChangedSetting } from '../auth-settings.ts'
import { SystemDatabase } from '../rights/system-database.ts'
import { USERS_DESIGN_ID, USERS_VALIDATION } from './users-design.ts'
import { UsersGuard } from './users-guard.ts'

export function usersDatabase(databases: Databases, settings: AuthSettings, log: Log): SystemDatabase {
  return new SystemDatabase(databases, settings, log, {
    failure: 'The users database cannot be opened: nobody but administrators can log in.',
    isNamedBy: isUsersName,
    name: () => settings.usersDatabase,
    guard: new UsersGuard(settings),
    design: { id: USERS_DESIGN_ID, validation: USERS_VALIDATION },
  })
}

/** Whether a change of settings may mean another users database. */
export function isUsersName({ section, key }: ChangedSetting): boolean {
  return section === AUTH_SECTION && key === 'authentication_db'
}
