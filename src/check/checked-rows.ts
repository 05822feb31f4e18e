/** Rows of a store that may be damaged: read a page at a time, and decoded without throwing. */
import { decodeChange } from '../database/layout/change-row.ts'
import { decodeRecord, weightOfRecord } from '../database/layout/document-record.ts'
import { afterPrefix, type DatabaseState, DOCUMENT_PREFIX, RANK_PREFIX } from '../database/layout/keys.ts'
import { isObject } from '../encoding/json/json-value.ts'
import { RankTree } from '../storage/rank-tree/rank-tree.ts'
import type { KeyRange, Page, PageLimits, Snapshot } from '../storage/store.ts'

export async function* pagesOf(snapshot: Snapshot, range: KeyRange, limits?: PageLimits): AsyncGenerator<Page> {
  for (let rest: KeyRange | undefined = range; rest; ) {
    const page: Page = await snapshot.page(rest, limits)
    yield page
    rest = page.next
  }
}

/** All rows whose keys begin with one byte. */
export function rowsOf(prefix: Buffer): KeyRange {
  return { from: prefix, to: afterPrefix(prefix) }
}

export function rankTreeOf(salt: Buffer): RankTree {
  return new RankTree({ rowPrefix: DOCUMENT_PREFIX, nodePrefix: RANK_PREFIX, salt, weightOf: weightOfRecord })
}

export function isJsonObject(bytes: Buffer): boolean {
  try {
    return isObject(JSON.parse(bytes.toString()))
  } catch {
    return false
  }
}

/** Whether every number that a new database has is valid; the other members belong to optional features. */
export function hasNumbers(state: DatabaseState): boolean {
  const { compactedTo: _, tombstones: __, expiry: ___, designsAt = 0, securityAt = 0, ...counts } = state
  const numbers = { ...counts, designsAt, securityAt }
  return Object.values(numbers).every((each) => Number.isSafeInteger(each) && each >= 0)
}

/** Undefined where the row cannot be understood. */
export function idOfChange(value: Buffer): string | undefined {
  try {
    const { id } = decodeChange(value)
    return typeof id === 'string' ? id : undefined
  } catch {
    return undefined
  }
}

export function sequenceOf(record: Buffer): number | undefined {
  try {
    return decodeRecord(record).sequence
  } catch {
    return undefined
  }
}

/** Whether the tree is part of the record, and has no row of its own. */
export function hasTreeInside(record: Buffer): boolean {
  try {
    return decodeRecord(record).tree !== undefined
  } catch {
    return false
  }
}
