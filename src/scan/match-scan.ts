/** Matches a large document with a selector, in the scan thread. */
import { fieldProjection } from '../selectors/field-projection.ts'
import { conditionMatcher } from '../selectors/selector-matcher.ts'
import { type MatchScan, ownBytes, type ScanResult } from './scan-message.ts'

/** The text of the document, without the members that are passed separately. */
export function* matchResults(work: MatchScan, text: Buffer): Generator<ScanResult, void, void> {
  const members = new Map([...work.members].map(([name, value]) => [name, Buffer.from(value)]))
  const isMatch = conditionMatcher(work.condition).matchesBeside(members, text, 0)
  const projection = isMatch && work.fields ? fieldProjection(work.fields) : undefined
  yield { kind: 'match', isMatch, projected: projection && ownBytes(projection.projectBeside(members, text, 0)) }
}
