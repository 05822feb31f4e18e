/** Characters that tell apart what comes out of an isolate. JSON text has none of them. */
import type { RealmMarks } from './realm/interface.ts'

export const MARKS: RealmMarks = {
  endOfResult: '\u0002',
  error: '\u0005',
  done: '\u0006',
  more: '\u0007',
}
