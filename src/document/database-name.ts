/** Which names a database may have. */

/** Longer names are refused, whatever their characters are. */
export const DATABASE_NAME_LIMIT_CHARACTERS = 1_000

const NAME = /^[a-z][a-z0-9_$()+/-]*$/

/** The databases of the server itself. */
const SYSTEM_NAMES = new Set(['_users', '_replicator'])

export function isDatabaseName(name: string): boolean {
  return name.length <= DATABASE_NAME_LIMIT_CHARACTERS && (NAME.test(name) || SYSTEM_NAMES.has(name))
}
