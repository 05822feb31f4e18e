/**
 * The names of the stores of indexes: the database and the signature of the views, so that all indexes of a database can be
 * found by the name of the database alone.
 */
import { hash } from 'node:crypto'

/** A longer name, escaped for a file name, would leave no space for the signature. */
const DATABASE_BYTES = 150

const SIGNATURE = /\/[0-9a-f]{32}$/

/** No name of a database begins so. */
const DIGEST_MARK = '.'

export function indexStoreName(database: string, signature: string): string {
  return `${databasePart(database)}/${signature}`
}

/** The signature of an index of this database that a store holds; undefined for other stores. */
export function signatureOfStore(store: string, database: string): string | undefined {
  return isStoreOf(store, database) ? store.slice(store.lastIndexOf('/') + 1) : undefined
}

/** Whether a store holds an index of this database. */
export function isStoreOf(store: string, database: string): boolean {
  return SIGNATURE.test(store) && databasePartOf(store) === databasePart(database)
}

/** The first part of the names of all its indexes: the name of the database, or a digest where that is long. */
export function databasePart(database: string): string {
  if (encodeURIComponent(database).length <= DATABASE_BYTES) return database
  return `${DIGEST_MARK}${hash('sha256', database).slice(0, 32)}`
}

/** The same part of the name of a store. */
export function databasePartOf(store: string): string {
  return store.replace(SIGNATURE, '')
}
