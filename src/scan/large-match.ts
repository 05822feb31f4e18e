/**
 * Matches large documents with selectors in a thread: a selector may take a tenth of a second on one of nine megabytes, and
 * cannot be interrupted.
 */
import type { Condition } from '../selectors/condition.ts'
import { parseSelector } from '../selectors/parse-selector.ts'
import { conditionMatcher } from '../selectors/selector-matcher.ts'
import type { MatchResult } from './scan-message.ts'
import { scanned } from './scan-runner.ts'

/** Whether documents match a selector, as a client sends it. Throws the error of the interface where it cannot be one. */
export function documentTest(selector: unknown): (text: Buffer) => boolean | Promise<boolean> {
  const condition = parseSelector(selector)
  const matcher = conditionMatcher(condition)
  const inThread = async (text: Buffer) => {
    const { isMatch } = await matchInThread({ condition, fields: undefined, members: new Map() }, text)
    return isMatch
  }
  return (text) => (isLargeToMatch(text.length) ? inThread(text) : matcher.matches(text))
}

/** To copy a text and to wait for a thread takes as long as most selectors do on this many bytes. */
const LARGE_BYTES = 256 * 1024

export function isLargeToMatch(bytes: number): boolean {
  return bytes > LARGE_BYTES
}

export interface LargeMatch {
  readonly condition: Condition
  /** Those that are wanted of a document that matches; undefined for all. */
  readonly fields: readonly string[] | undefined
  /** Members of the document that do not lie in its text. */
  readonly members: ReadonlyMap<string, Buffer>
}

/** The text stays as it is: the thread gets a copy. */
export async function matchInThread(match: LargeMatch, text: Uint8Array): Promise<MatchResult> {
  const copy = Buffer.allocUnsafeSlow(text.length)
  copy.set(text)
  for await (const result of scanned({ kind: 'match', ...match }, copy)) if (result.kind === 'match') return result
  throw new Error('A scan ended without its result.')
}
