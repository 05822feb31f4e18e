/**
 * Matches large documents with selectors in a thread: a selector may take a tenth of a second on one of nine megabytes, and
 * cannot be interrupted.
 */
import type { Condition } from '../selectors/condition.ts'
import { parseSelector } from '../selectors/parse-selector.ts'
import { conditionMatcher } from '../selectors/selector-matcher.ts'
import type { MatchResult } from './scan-message.ts'
import { scanned } from './scan-runner.ts'

/** A test whether documents match a selector. Throws the client's error where the selector is not valid. */
export function documentTest(selector: unknown): (text: Buffer) => boolean | Promise<boolean> {
  const condition = parseSelector(selector)
  const matcher = conditionMatcher(condition)
  const inThread = async (text: Buffer) => {
    const { isMatch } = await matchInThread({ condition, fields: undefined, members: new Map() }, text)
    return isMatch
  }
  return (text) => (isLargeToMatch(text.length) ? inThread(text) : matcher.matches(text))
}

/** Most selectors match a text of this size in the time that it takes to copy it and wait for a thread. */
const LARGE_BYTES = 256 * 1024

export function isLargeToMatch(bytes: number): boolean {
  return bytes > LARGE_BYTES
}

export interface LargeMatch {
  readonly condition: Condition
  /** The fields to return of a document that matches; undefined for all. */
  readonly fields: readonly string[] | undefined
  /** Members of the document that are not in its text. */
  readonly members: ReadonlyMap<string, Buffer>
}

/** The thread gets a copy of the text. */
export async function matchInThread(match: LargeMatch, text: Uint8Array): Promise<MatchResult> {
  const copy = Buffer.allocUnsafeSlow(text.length)
  copy.set(text)
  for await (const result of scanned({ kind: 'match', ...match }, copy)) if (result.kind === 'match') return result
  throw new Error('A scan ended without its result.')
}
