/** Which names a database may have. */
import { RequestError } from '../document/request-error.ts'

const NAME = /^[a-z][a-z0-9_$()+/-]*$/

/** The databases of the server itself. */
const SYSTEM_NAMES = new Set(['_users', '_replicator'])

const CHARACTERS_LIMIT = 1_000

export function checkDatabaseName(name: string): void {
  if (name.length > CHARACTERS_LIMIT) throw tooLongDatabaseName(name)
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

function tooLongDatabaseName(name: string): RequestError {
  return new RequestError(
    400,
    'illegal_database_name',
    `Name: '${name.slice(0, 80)}…'. It has ${name.length} characters; at most ${CHARACTERS_LIMIT} are allowed.`,
  )
}
