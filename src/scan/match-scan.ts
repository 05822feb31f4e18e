/** Matches large documents with a selector, in the scan thread. What was compiled for a query is kept for its next document. */
import assert from 'node:assert/strict'
import { type FieldProjection, fieldProjection } from '../selectors/field-projection.ts'
import { conditionMatcher, type SelectorMatcher } from '../selectors/selector-matcher.ts'
import { type MatchScan, ownBytes, type ScanResult, type Selection } from './scan-message.ts'

interface CompiledQuery {
  readonly query: number
  readonly matcher: SelectorMatcher
  readonly projection: FieldProjection | undefined
}

let last: CompiledQuery | undefined

/** The text of the document, without the members that are passed separately. */
export function* matchResults(work: MatchScan, text: Buffer): Generator<ScanResult, void, void> {
  if (work.selection) last = compiled(work.query, work.selection)
  assert(last?.query === work.query)
  const { matcher, projection } = last
  const members = new Map([...work.members].map(([name, value]) => [name, Buffer.from(value)]))
  const isMatch = matcher.matchesBeside(members, text, 0)
  const projected = isMatch && projection ? ownBytes(projection.projectBeside(members, text, 0)) : undefined
  yield { kind: 'match', isMatch, projected }
}

function compiled(query: number, { condition, fields }: Selection): CompiledQuery {
  return { query, matcher: conditionMatcher(condition), projection: fields && fieldProjection(fields) }
}
