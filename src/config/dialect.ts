/**
 * The CouchDB release that the server follows where releases contradict each other: 1.6, or 3, which newer clients
 * expect. What does not contradict 1.6 is available in both.
 */
import type { Configuration } from './configuration.ts'

export const DIALECTS = ['1.6', '3'] as const
export type Dialect = (typeof DIALECTS)[number]

export function dialectOf(configuration: Configuration): Dialect {
  return configuration.get('httpd', 'dialect') === '3' ? '3' : '1.6'
}
