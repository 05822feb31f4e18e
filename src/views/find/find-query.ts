/**
 * A running selector query: walks the ranges of its plan and yields the texts of matching documents, up to the limit.
 * If the ranges match the selector exactly, it reads about as many rows as it returns.
 */
import type { Database } from '../../database/database.ts'
import type { LastingView } from '../../database/database-view.ts'
import { notFound } from '../../document/request-error.ts'
import { conditionMatcher } from '../../selectors/selector-matcher.ts'
import type { Client, OpenIndex, OpenView } from '../reading/open-index.ts'
import type { Views } from '../views.ts'
import { bookmarkText, indexMark, NO_BOOKMARK } from './bookmark.ts'
import { CoveredRows } from './covered-rows.ts'
import type { FindPlan } from './find-plan.ts'
import { isIndex } from './find-plan.ts'
import { DocumentSource, type FindSource, IndexSource } from './find-source.ts'
import { FoundDocuments } from './found-documents.ts'
import { type FindRange, RangeCursor } from './ranges/find-range.ts'

export interface FindFigures {
  readonly keysExamined: number
  readonly documentsExamined: number
  readonly results: number
}

/** Rows that are read at a time: the limit, and more if not all of them match. */
const LEAST_ROWS = 8
const MOST_ROWS = 512

export class FindQuery implements Disposable {
  readonly #database: Database
  readonly #plan: FindPlan
  readonly #client: Client | undefined
  readonly #source: FindSource
  readonly #index: OpenIndex | undefined
  readonly #view: LastingView | undefined
  readonly #documents: FoundDocuments | undefined
  #keysExamined = 0
  #results = 0
  #lastKey: Buffer | undefined

  /** Waits until the index is as fresh as the query requires. To be released. */
  static async open(database: Database, views: Views, plan: FindPlan, client?: Client): Promise<FindQuery> {
    database.reading?.check('list')
    if (!isIndex(plan.index)) return new FindQuery(database, plan, client)
    const { design, name } = plan.index
    const index = await views.openIndexOf(name, database, design, plan.request.freshness, client)
    try {
      const view = index.view(name)
      if (!view) throw new Error(`The index '${name}' is not among the views of its design document.`)
      return new FindQuery(database, plan, client, { index, view })
    } catch (error) {
      index.release()
      throw error
    }
  }

  private constructor(
    database: Database,
    plan: FindPlan,
    client: Client | undefined,
    opened?: { readonly index: OpenIndex; readonly view: OpenView },
  ) {
    this.#database = database
    this.#plan = plan
    this.#client = client
    this.#index = opened?.index
    const { condition, fields, conflicts } = plan.request
    if (opened && fields && isIndex(plan.index) && plan.isCovered && !database.reading) {
      const rows = new CoveredRows(condition, fields.names, plan.index.columns)
      this.#source = new IndexSource(opened.view, plan, rows)
      return
    }
    // Opened after the index or beside it, so that documents are not older than its rows.
    this.#view = database.lastingView(opened?.view.snapshot)
    const wanted = { condition, matcher: conditionMatcher(condition), fields, conflicts }
    this.#documents = new FoundDocuments(this.#view, wanted, { client })
    this.#source = opened
      ? new IndexSource(opened.view, plan, this.#documents)
      : new DocumentSource(database, this.#view, plan, this.#documents)
  }

  /** The texts of the documents, some at a time, each behind a separator; asked for once. */
  async *results(): AsyncGenerator<Buffer> {
    const { limit } = this.#plan.request
    let { skip } = this.#plan.request
    const ranges = new RangeCursor(this.#plan.rest)
    if (skip > 0 && this.#plan.rest.areExact && this.#isCurrent) skip = await this.#skipRows(ranges, skip)
    let rowsAMatch = 1
    for (let range = ranges.take(); range && this.#results < limit; range = ranges.take()) {
      const wanted = rowsAMatch * (limit - this.#results + skip)
      const rows = Math.min(MOST_ROWS, range.isExact ? wanted : Math.max(LEAST_ROWS, wanted))
      const { page, rest } = await this.#source.page(range, rows)
      if (rest) ranges.putBack(rest)
      const { texts } = page
      this.#keysExamined += texts.rows
      let matches = 0
      let first = -1
      let last = -1
      for (let row = 0; row < texts.rows; row++) {
        if (!texts.isFound(row)) continue
        matches++
        if (skip > 0) skip--
        else if (this.#results < limit) {
          if (first < 0) first = row
          last = row
          this.#results++
        }
      }
      if (last >= 0) {
        this.#lastKey = page.keyOf(last)
        yield texts.between(first, last)
      }
      // A stalled client holds no snapshot: pages may be read from newer ones.
      this.#index?.releaseEarly()
      if (2 * matches < texts.rows) rowsAMatch *= 2
      if (!ranges.isAtEnd && this.#results < limit) this.#checkWanted()
    }
  }

  get figures(): FindFigures {
    return {
      keysExamined: this.#keysExamined,
      documentsExamined: this.#documents?.examined ?? 0,
      results: this.#results,
    }
  }

  /** The bookmark of the next page; undefined if nothing can match. */
  get bookmark(): string | undefined {
    const { ranges, request, index } = this.#plan
    if (ranges.length === 0) return undefined
    if (!this.#lastKey) return request.bookmarkText ?? NO_BOOKMARK
    return bookmarkText({ index: indexMark(index), key: this.#lastKey })
  }

  /** The number of matching documents; undefined if that would take reading more rows than allowed. */
  async count(mostRows: number): Promise<number | undefined> {
    let count = 0
    let left = mostRows
    const ranges = new RangeCursor(this.#plan.ranges)
    for (let range = ranges.take(); range; range = ranges.take()) {
      const rows = await this.#rowsIn(range)
      if (range.isExact || rows === 0) count += rows
      else if (rows > left) return undefined
      else {
        left -= rows
        count += await this.#matchesIn(range)
      }
    }
    return count
  }

  /** May be called twice. */
  release(): void {
    this.#index?.release()
    this.#view?.release()
  }

  [Symbol.dispose](): void {
    this.release()
  }

  get #isCurrent(): boolean {
    return this.#plan.request.freshness === 'updated'
  }

  /** Rare matches take long to find: the search ends when the client is gone, or the database. */
  #checkWanted(): void {
    this.#client?.signal.throwIfAborted()
    if (this.#database.isDeleted) throw notFound('no_db_file')
  }

  #rowsIn({ from, to }: FindRange): Promise<number> {
    const { ranks, snapshot } = this.#source
    return ranks.countBetween(snapshot, from, to)
  }

  async #matchesIn(range: FindRange): Promise<number> {
    let matches = 0
    for (let rest: FindRange | undefined = range; rest; ) {
      const read = await this.#source.page(rest, MOST_ROWS)
      const { texts } = read.page
      for (let row = 0; row < texts.rows; row++) if (texts.isFound(row)) matches++
      rest = read.rest
      if (rest) this.#checkWanted()
    }
    return matches
  }

  /** If all rows match, the rank tree finds the start. Returns how many are left to skip. */
  async #skipRows(ranges: RangeCursor, skip: number): Promise<number> {
    const { ranks, snapshot } = this.#source
    let left = skip
    while (left > 0) {
      const range = ranges.take()
      if (!range) break
      const rows = await this.#rowsIn(range)
      if (rows <= left) {
        left -= rows
        continue
      }
      const first = this.#plan.reverse
        ? await ranks.select(snapshot, (await ranks.rank(snapshot, range.to)) - 1 - left)
        : await ranks.select(snapshot, (await ranks.rank(snapshot, range.from)) + left)
      if (!first || first.length >= LONG_KEY_BYTES) {
        ranges.putBack(range)
        return left
      }
      ranges.putBack(
        this.#plan.reverse ? { ...range, to: Buffer.concat([first, Buffer.of(0)]) } : { ...range, from: first },
      )
      return 0
    }
    return left
  }
}

/** Longer keys may lie in another order than that of their bytes. */
const LONG_KEY_BYTES = 1_900
