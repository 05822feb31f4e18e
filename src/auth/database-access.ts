/** Databases as a user may use them: who has no business there is turned away, others cannot write design documents. */
import { refuseTogether } from '../database/all-or-nothing.ts'
import type { Database } from '../database/database.ts'
import type { Databases } from '../database/databases.ts'
import type { Commit, DocumentAccess } from '../database/document-guard.ts'
import type { DocumentEdit, EditOutcome } from '../database/edit.ts'
import { isServerAdmin, type UserContext } from '../database/user-context.ts'
import { isDesignId } from '../document/document-id.ts'
import { authorize, isDatabaseAdmin, NO_SECURITY, notDatabaseAdmin, parseSecurity, type Who } from './rights.ts'

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
  const security = isServer ? NO_SECURITY : await securityOf(database)
  authorize(who, user, security)
  const isAdmin = isDatabaseAdmin(user, security)
  if (guard) return database.usedBy(user, guard.accessOf(database, user, isAdmin))
  return database.usedBy(user, isAdmin ? undefined : MEMBER_ACCESS)
}

/** What `openDatabase` gives to members, where that is known without waiting; undefined where it has to be asked. */
export function openedDatabase(databases: Databases, name: string, user: UserContext): Database | undefined {
  if (!isServerAdmin(user) || databases.guardOf(name)) return undefined
  return databases.opened(name)?.usedBy(user)
}

/** Members write everything but design documents. */
const MEMBER_ACCESS: DocumentAccess = { reading: undefined, write: writeAllButDesigns }

async function securityOf(database: Database) {
  using view = database.view()
  return parseSecurity(await view.security())
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
