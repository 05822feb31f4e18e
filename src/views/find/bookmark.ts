/**
 * The bookmark of a selector query: continues after a row of an index, or after a document. Opaque to clients. It names
 * its index, so that the next page is read from the same one.
 */
import { hash } from 'node:crypto'
import { isObject } from '../../encoding/json/json-value.ts'
import { selectorError } from '../../selectors/selector-error.ts'
import type { IndexOrAll } from './index-choice.ts'
import type { SelectorIndex } from './selector-indexes.ts'

export interface Bookmark {
  /** Identifies the index. */
  readonly index: string
  /** The key of the last returned row, in the order of the index. */
  readonly key: Buffer
}

/** The bookmark of an empty page. */
export const NO_BOOKMARK = 'nil'

const LONGEST_BOOKMARK = 64 * 1024

/** Undefined if none is given. Throws if it is not valid. */
export function readBookmark(value: unknown): Bookmark | undefined {
  if (value === '' || value === NO_BOOKMARK) return undefined
  if (typeof value !== 'string' || value.length > LONGEST_BOOKMARK) throw invalidBookmark(value)
  const parsed = parse(Buffer.from(value, 'base64url').toString())
  const { i: index, k: key } = isObject(parsed) ? parsed : {}
  if (typeof index !== 'string' || typeof key !== 'string') throw invalidBookmark(value)
  return { index, key: Buffer.from(key, 'base64url') }
}

export function bookmarkText({ index, key }: Bookmark): string {
  return Buffer.from(JSON.stringify({ i: index, k: key.toString('base64url') })).toString('base64url')
}

/** A digest of the definition of the index. */
export function indexMark(index: IndexOrAll): string {
  if (index === 'all documents') return '_all_docs'
  const known = marks.get(index)
  if (known !== undefined) return known
  const mark = hash('md5', JSON.stringify([index.design.signature, index.name]))
  marks.set(index, mark)
  return mark
}

/** Every page of a reply needs one. */
const marks = new WeakMap<SelectorIndex, string>()

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

export function invalidBookmark(value: unknown): Error {
  return selectorError('invalid_bookmark', `Invalid bookmark value: ${JSON.stringify(value)}`)
}
