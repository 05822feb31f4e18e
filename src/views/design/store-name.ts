/** What the stores of indexes are called: after their database and their signature. */
import { hash } from 'node:crypto'

/** Longer names of databases, escaped as a file's name is, would leave no room for the rest. */
const DATABASE_BYTES = 150

const SIGNATURE = /\/[0-9a-f]{32}$/

/** No database is called so. */
const DIGEST_MARK = '.'

export function indexStoreName(database: string, signature: string): string {
  return `${databasePart(database)}/${signature}`
}

export function isStoreOf(store: string, database: string): boolean {
  return SIGNATURE.test(store) && databasePartOf(store) === databasePart(database)
}

/** What the names of all stores of the database's indexes begin with: its name, or a digest where that is long. */
export function databasePart(database: string): string {
  if (encodeURIComponent(database).length <= DATABASE_BYTES) return database
  return `${DIGEST_MARK}${hash('sha256', database).slice(0, 32)}`
}

export function databasePartOf(store: string): string {
  return store.replace(SIGNATURE, '')
}
