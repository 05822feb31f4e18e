/**
 * Which release of the family the server speaks like, where releases contradict each other: 1.6, the interface to the letter,
 * or 3, which newer clients expect. Everything that does not contradict 1.6 is there in both.
 */
import type { Configuration } from './configuration.ts'

export const DIALECTS = ['1.6', '3'] as const
export type Dialect = (typeof DIALECTS)[number]

export function dialectOf(configuration: Configuration): Dialect {
  return configuration.get('httpd', 'dialect') === '3' ? '3' : '1.6'
}
