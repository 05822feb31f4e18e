/** Which names a database may have. */
import { RequestError } from '../document/request-error.ts'

const NAME = /^[a-z][a-z0-9_$()+/-]*$/

/** The databases of the server itself. */
const SYSTEM_NAMES = new Set(['_users', '_replicator'])

export function checkDatabaseName(name: string): void {
  if (!NAME.test(name) && !SYSTEM_NAMES.has(name)) throw illegalDatabaseName(name)
}

function illegalDatabaseName(name: string): RequestError {
  return new RequestError(
    400,
    'illegal_database_name',
    `Name: '${name}'. Only lowercase characters (a-z), digits (0-9), and any of the characters _, $, (, ), +, -, and / ` +
      'are allowed. Must begin with a letter.',
  )
}
