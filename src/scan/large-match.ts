/**
 * Matches large documents with selectors in a thread: a selector may take a tenth of a second on one of nine megabytes, and
 * cannot be interrupted.
 */
import { parseSelector } from '../selectors/parse-selector.ts'
import { conditionMatcher } from '../selectors/selector-matcher.ts'
import type { MatchResult, Selection } from './scan-message.ts'
import { matched } from './scan-runner.ts'

/**
 * A test whether documents match a selector. Throws the client's error where the selector is not valid. When the client is gone, large
 * documents are matched no more.
 */
export function documentTest(selector: unknown, client?: MatchClient): (text: Buffer) => boolean | Promise<boolean> {
  const condition = parseSelector(selector)
  const matcher = conditionMatcher(condition)
  const large = new LargeMatcher({ condition, fields: undefined }, client)
  const inThread = async (text: Buffer) => (await large.match(NO_MEMBERS, text)).isMatch
  return (text) => (isLargeToMatch(text.length) ? inThread(text) : matcher.matches(text))
}

const NO_MEMBERS: ReadonlyMap<string, Buffer> = new Map()

/** Most selectors match a text of this size in the time that it takes to copy it and wait for a thread. */
const LARGE_BYTES = 256 * 1024

export function isLargeToMatch(bytes: number): boolean {
  return bytes > LARGE_BYTES
}

/** Who wants the results. */
export interface MatchClient {
  /** Aborted when nobody does any more. */
  readonly signal: AbortSignal
}

let lastQuery = 0

/** Matches the large documents of one query. */
export class LargeMatcher {
  readonly #query = ++lastQuery
  readonly #selection: Selection
  readonly #client: MatchClient | undefined

  constructor(selection: Selection, client?: MatchClient) {
    this.#selection = selection
    this.#client = client
  }

  /** The members are those that are not in the text. Nothing of the text is copied before a thread is free. */
  match(members: ReadonlyMap<string, Buffer>, text: Uint8Array): Promise<MatchResult> {
    const scan = { kind: 'match', query: this.#query, selection: this.#selection, members } as const
    return matched(scan, text, this.#client?.signal)
  }
}
