/**
 * The address of a PostgreSQL server, as `postgres://user:password@host:port/database?schema=settle`. All other parameters
 * are those of the driver. It is never shown or logged with its password.
 */
import { StorageError } from '../storage-error.ts'

export interface EngineAddress {
  /** For the driver, with the password. Never to be shown. */
  readonly connectionString: string
  /** For people: user, host and database. */
  readonly shown: string
  /** The schema that holds the tables: several servers with data of their own may share a database. */
  readonly schema: string
}

const PROTOCOLS = new Set(['postgres:', 'postgresql:'])
const DEFAULT_SCHEMA = 'settle'
/** Names that need no quotes, and are short enough for a suffix. */
const SCHEMA = /^[a-z_][a-z0-9_]{0,40}$/

/** Parameters that must not be shown. */
const SECRETS = ['password', 'sslkey', 'sslcert', 'sslrootcert', 'sslpassword']

/** Throws an error whose message is for people and contains no part of the address. */
export function parseAddress(text: string): EngineAddress {
  const url = URL.parse(text)
  if (!url || !PROTOCOLS.has(url.protocol)) {
    throw new StorageError('The address of the engine is not of the form postgres://user:password@host:port/database.')
  }
  const schema = url.searchParams.get('schema') ?? DEFAULT_SCHEMA
  if (!SCHEMA.test(schema)) {
    throw new StorageError('The schema of the engine is a name of up to 41 letters a to z, digits and underscores.')
  }
  url.searchParams.delete('schema')
  return { connectionString: url.href, shown: withoutSecrets(url), schema }
}

/** The address without secrets, also where it is not valid. */
export function shownAddress(text: string): string {
  try {
    return parseAddress(text).shown
  } catch {
    return '(not an address)'
  }
}

function withoutSecrets(url: URL): string {
  const shown = new URL(url)
  shown.password = ''
  for (const secret of SECRETS) shown.searchParams.delete(secret)
  return shown.href
}
