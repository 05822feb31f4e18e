/** The plan of a selector query: its index, its ranges and its direction. */
import type { Database } from '../../database/database.ts'
import { indexMark, invalidBookmark } from './bookmark.ts'
import { isCovered } from './covered-rows.ts'
import type { FindRequest } from './find-request.ts'
import { type Choice, chooseIndex, type IndexOrAll } from './index-choice.ts'
import { listBehind, type RangeList, rangeList, reversedList } from './ranges/find-range.ts'
import { idRanges, indexRanges } from './ranges/index-ranges.ts'
import { type SelectorIndex, selectorIndexes } from './selector-indexes.ts'

export interface FindPlan {
  readonly request: FindRequest
  readonly index: IndexOrAll
  readonly choice: Choice
  readonly reverse: boolean
  /** In the order of reading; empty if nothing can match. */
  readonly ranges: RangeList
  /** What is left of them after the bookmark. */
  readonly rest: RangeList
  /** Whether the rows of the index hold all that is needed. */
  readonly isCovered: boolean
}

/** Throws if no index can be used. */
export async function planFind(database: Database, request: FindRequest): Promise<FindPlan> {
  const choice = await choiceFor(database, request)
  if (choice.refusal) throw choice.refusal
  return await planWith(request, choice, choice.index!)
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

export async function planWith(request: FindRequest, choice: Choice, index: IndexOrAll): Promise<FindPlan> {
  const reverse = request.sort[0]?.direction === 'desc'
  const ascending = await rangesIn(request, index)
  const ranges = reverse ? reversedList(ascending) : ascending
  return {
    request,
    index,
    choice,
    reverse,
    ranges,
    rest: request.bookmark ? listBehind(ranges, request.bookmark.key, reverse) : ranges,
    isCovered: index !== 'all documents' && isCovered(request, index),
  }
}

/** A selector of nothing but an empty list has no matches. */
async function rangesIn({ condition, partition }: FindRequest, index: IndexOrAll): Promise<RangeList> {
  if ((condition.kind === 'all' || condition.kind === 'any') && condition.parts.length === 0) return rangeList([])
  if (index === 'all documents') return await idRanges(condition, partition)
  return rangeList(indexRanges(condition, index.columns, partition))
}

export function isIndex(index: IndexOrAll): index is SelectorIndex {
  return index !== 'all documents'
}
