/** Characters that tell apart what comes out of an isolate. JSON text has none of them. */
import type { RealmMarks } from './realm/calls.ts'

export const MARKS: RealmMarks = {
  endOfRow: '\u0001',
  endOfResult: '\u0002',
  endOfFunction: '\u0003',
  error: '\u0005',
  done: '\u0006',
  more: '\u0007',
}
