/**
 * What a user may see and write of a database's documents, where that is not simply everything. A database that was
 * opened for a user asks here wherever documents are read and written, so that no endpoint can forget to.
 */

import type { Database } from './database.ts'
import type { DocumentAccess } from './document-access.ts'
import type { UserContext } from './user-context.ts'

/** Knows the rules of one database, such as that of the users. */
export interface DocumentGuard {
  /** What this user may do, given whether it administers the database. */
  accessOf(database: Database, user: UserContext, isAdmin: boolean): DocumentAccess
}
