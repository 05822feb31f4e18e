/** Databases as a user may use them: who has no business there is turned away, others cannot write design documents. */

import type { Database } from '../../database/database.ts'
import type { Databases } from '../../database/databases.ts'
import { type Commit, type DocumentAccess, isServerAdmin, type UserContext } from '../../database/user-context.ts'
import { type DocumentEdit, type EditOutcome, refuseTogether } from '../../database/writing/edit.ts'
import { isDesignId } from '../../document/ids.ts'
import {
  authorize,
  isDatabaseAdmin,
  NO_SECURITY,
  notDatabaseAdmin,
  parseSecurity,
  type Security,
  type Who,
} from './rights.ts'

/** Throws where there is no such database, or where it is not for this user. */
export async function openDatabase(
  databases: Databases,
  name: string,
  user: UserContext,
  who: Who = 'member',
): Promise<Database> {
  const database = await databases.get(name)
  const guard = databases.guardOf(name)
  const isServer = isServerAdmin(user)
  if (isServer && !guard) return database.usedBy(user)
  const security = isServer ? NO_SECURITY : (knownSecurity(database) ?? (await readSecurity(database)))
  authorize(who, user, security)
  if (!guard) return unguarded(database, user, security)
  return database.usedBy(user, guard.accessOf(database, user, isDatabaseAdmin(user, security)))
}

/** What `openDatabase` gives to members, where that is known without waiting; undefined where it has to be asked. */
export function openedDatabase(databases: Databases, name: string, user: UserContext): Database | undefined {
  const database = databases.opened(name)
  if (!database || databases.guardOf(name)) return undefined
  if (isServerAdmin(user)) return database.usedBy(user)
  const security = knownSecurity(database)
  if (!security) return undefined
  authorize('member', user, security)
  return unguarded(database, user, security)
}

function unguarded(database: Database, user: UserContext, security: Security): Database {
  return database.usedBy(user, isDatabaseAdmin(user, security) ? undefined : MEMBER_ACCESS)
}

/** Members write everything but design documents. */
const MEMBER_ACCESS: DocumentAccess = {
  reading: undefined,
  checkTarget: (id) => {
    if (isDesignId(id)) throw notDatabaseAdmin()
  },
  write: writeAllButDesigns,
}

/** What security objects were read to say, and how often they had been set by then. */
const securities = new WeakMap<Database, { readonly security: Security; readonly changes: number }>()

/** Undefined where it was never read, or was set since. */
function knownSecurity(database: Database): Security | undefined {
  const known = securities.get(database)
  return known?.changes === database.securityChanges ? known.security : undefined
}

async function readSecurity(database: Database): Promise<Security> {
  const changes = database.securityChanges
  using view = database.view()
  const security = parseSecurity(await view.security())
  securities.set(database, { security, changes })
  return security
}

async function writeAllButDesigns(edits: readonly DocumentEdit[], commit: Commit): Promise<EditOutcome[]> {
  if (!edits.some(({ id }) => isDesignId(id))) return commit(edits)
  refuseTogether(
    edits,
    edits.map(({ id }) => (isDesignId(id) ? notDatabaseAdmin() : undefined)),
  )
  const written = (await commit(edits.filter(({ id }) => !isDesignId(id)))).values()
  return edits.map(({ id }): EditOutcome => {
    if (isDesignId(id)) return { outcome: 'refused', error: notDatabaseAdmin() }
    const { value } = written.next()
    if (!value) throw new Error('A write has no outcome.')
    return value
  })
}
