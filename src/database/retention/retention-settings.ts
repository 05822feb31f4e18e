/**
 * Which databases have a retention of tombstones, and which ones documents that expire: a setting for each, by the name
 * of the database. They are settings so that not all databases have to be opened to find them.
 */
import type { Configuration } from '../../config/configuration.ts'

export const RETENTION_SECTION = 'tombstone_retention'
export const EXPIRY_SECTION = 'document_expiry'

/** A hundred years. */
const LONGEST_SECONDS = 3_155_760_000

/** Undefined where the text is not a number of seconds. */
export function retentionSeconds(text: string | undefined): number | undefined {
  if (text === undefined || !/^\d{1,10}$/.test(text)) return undefined
  const seconds = Number(text)
  return seconds >= 1 && seconds <= LONGEST_SECONDS ? seconds : undefined
}

export function retentionOf(configuration: Pick<Configuration, 'get'>, database: string): number | undefined {
  return retentionSeconds(configuration.get(RETENTION_SECTION, database))
}

/** A member of a document: any name but those that belong to the server. */
export function isExpiryField(text: unknown): text is string {
  return (
    typeof text === 'string' && text.length > 0 && text.length <= 200 && !text.startsWith('_') && !/\p{Cc}/u.test(text)
  )
}

export function expiryFieldOf(configuration: Pick<Configuration, 'get'>, database: string): string | undefined {
  const field = configuration.get(EXPIRY_SECTION, database)
  return isExpiryField(field) ? field : undefined
}
