/** The plan of a selector query: its index, its ranges and its direction. */
import type { Database } from '../../database/database.ts'
import { type Bookmark, indexMark, invalidBookmark } from './bookmark.ts'
import { isCovered } from './covered-rows.ts'
import type { FindRequest } from './find-request.ts'
import { type Choice, chooseIndex, type IndexOrAll } from './index-choice.ts'
import { type FindRange, idRanges, indexRanges, rangeBehind } from './ranges/index-ranges.ts'
import { type SelectorIndex, selectorIndexes } from './selector-indexes.ts'

export interface FindPlan {
  readonly request: FindRequest
  readonly index: IndexOrAll
  readonly choice: Choice
  readonly reverse: boolean
  /** In the order of reading; empty if nothing can match. */
  readonly ranges: readonly FindRange[]
  /** What is left of them after the bookmark. */
  readonly rest: readonly FindRange[]
  /** Whether the rows of the index hold all that is needed. */
  readonly isCovered: boolean
}

/** Throws if no index can be used. */
export async function planFind(database: Database, request: FindRequest): Promise<FindPlan> {
  const choice = await choiceFor(database, request)
  if (choice.refusal) throw choice.refusal
  return planWith(request, choice, choice.index!)
}

/** A bookmark continues with its index, if that is still possible. */
export async function choiceFor(database: Database, request: FindRequest): Promise<Choice> {
  const indexes = await selectorIndexes(database)
  const choice = chooseIndex(indexes, request)
  const { bookmark, bookmarkText } = request
  if (!bookmark || choice.refusal || indexMark(choice.index!) === bookmark.index) return choice
  const index = [...usable(choice)].find((each) => indexMark(each) === bookmark.index)
  if (!index) throw invalidBookmark(bookmarkText)
  return { ...choice, index }
}

function* usable({ others }: Choice): Generator<IndexOrAll> {
  for (const { index, isUsable } of others) if (isUsable) yield index
}

export function planWith(request: FindRequest, choice: Choice, index: IndexOrAll): FindPlan {
  const reverse = request.sort[0]?.direction === 'desc'
  const ascending = rangesIn(request, index)
  const ranges = reverse ? ascending.toReversed() : ascending
  return {
    request,
    index,
    choice,
    reverse,
    ranges,
    rest: request.bookmark ? after(ranges, request.bookmark, reverse) : ranges,
    isCovered: index !== 'all documents' && isCovered(request, index),
  }
}

/** A selector of nothing but an empty list has no matches. */
function rangesIn({ condition, partition }: FindRequest, index: IndexOrAll): FindRange[] {
  if ((condition.kind === 'all' || condition.kind === 'any') && condition.parts.length === 0) return []
  return index === 'all documents' ? idRanges(condition, partition) : indexRanges(condition, index.columns, partition)
}

/** The part of the ranges after the last returned row. */
function after(ranges: readonly FindRange[], { key }: Bookmark, reverse: boolean): FindRange[] {
  return ranges.flatMap((range) => rangeBehind(range, key, reverse) ?? [])
}

export function isIndex(index: IndexOrAll): index is SelectorIndex {
  return index !== 'all documents'
}
