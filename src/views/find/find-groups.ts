/**
 * Counts and sums of the documents that a selector finds, whole or in groups, out of the rank tree of an index: only
 * the first row of each group is read. So the selector must be exactly ranges of the index, and the fields of the
 * groups must be the columns after those with one value.
 */
import type { Database } from '../../database/database.ts'
import { RequestError } from '../../document/request-error.ts'
import { collationKey } from '../../encoding/collation/collation-key.ts'
import type { JsonValue } from '../../encoding/json/json-value.ts'
import type { RangePart } from '../../storage/rank-tree/rank-tree.ts'
import { orderedPage } from '../../storage/snapshots/row-page.ts'
import { NO_SCOPE, rowPrefix, StoredRow, scopeOfPartition } from '../layout/index-layout.ts'
import type { Client, OpenView } from '../reading/open-index.ts'
import type { NumberFigures } from '../reductions/numbers.ts'
import type { Views } from '../views.ts'
import type { FindRequest, GroupRequest } from './find-request.ts'
import { chooseIndex } from './index-choice.ts'
import type { FindRange } from './ranges/find-range.ts'
import { indexRanges } from './ranges/index-ranges.ts'
import { type SelectorIndex, selectorIndexes } from './selector-indexes.ts'

export interface FoundGroup {
  /** The values of the fields that it is a group of. */
  readonly key: readonly JsonValue[]
  readonly value: JsonValue
}

/** Throws if no index can answer it. */
export async function findGroups(
  database: Database,
  views: Views,
  request: FindRequest,
  groups: GroupRequest,
  client?: Client,
): Promise<FoundGroup[]> {
  if (database.reading)
    throw new RequestError('invalid', 'bad_request', 'Documents of this database cannot be reduced.')
  for (const index of await candidates(database, request, groups)) {
    const { design, name } = index
    using opened = await views.openIndexOf(name, database, design, request.freshness, client)
    const view = opened.view(name)
    if (!view) throw new Error(`The index '${name}' is not among the views of its design document.`)
    const ranges = await exactRanges(view, indexRanges(request.condition, index.columns, request.partition))
    if (ranges) return await new GroupedRows(view, index, groups, scopeOf(request)).within(ranges, request)
  }
  throw notReducible(groups)
}

function scopeOf({ partition }: FindRequest): Uint8Array {
  return partition === undefined ? NO_SCOPE : scopeOfPartition(partition)
}

/** Indexes that have the order of the groups, the best first. */
async function candidates(
  database: Database,
  request: FindRequest,
  { fields, reduce }: GroupRequest,
): Promise<SelectorIndex[]> {
  const indexes = (await selectorIndexes(database)).filter(
    ({ definition }) => reduce.field === undefined || definition.reducedField === reduce.field,
  )
  const sort = fields.map((name) => ({ name, direction: 'asc' as const }))
  const { index, others, refusal } = chooseIndex(indexes, { ...request, sort })
  if (refusal && refusal.error !== 'no_usable_index') throw refusal
  const further = others.filter(({ isUsable, reasons }) => isUsable && !reasons.includes('excluded_by_user'))
  return [index, ...further.map((each) => each.index)].filter((each) => each !== undefined && each !== 'all documents')
}

/** Undefined where rows of some range may not match. */
async function exactRanges(view: OpenView, ranges: readonly FindRange[]): Promise<FindRange[] | undefined> {
  const exact: FindRange[] = []
  for (const range of ranges) {
    if (range.isExact) exact.push(range)
    else if ((await view.ranks.countBetween(view.snapshot, range.from, range.to)) > 0) return undefined
  }
  return exact
}

function notReducible({ fields, reduce }: GroupRequest): RequestError {
  const parts = [
    'has ranges that match the selector exactly',
    ...(fields.length > 0 ? [`has the fields of \`group\` in their order (${fields.join(', ')})`] : []),
    ...(reduce.field === undefined ? [] : [`sums up the field ${reduce.field}`]),
  ]
  return new RequestError(
    'invalid',
    'no_usable_index',
    `This cannot be answered without reading documents: no index ${parts.join(', and ')}.`,
  )
}

/** Collects a group over several ranges. */
interface OpenGroup {
  readonly key: readonly JsonValue[]
  rows: number
  readonly parts: RangePart[]
}

class GroupedRows {
  readonly #view: OpenView
  readonly #request: GroupRequest
  /** The prefix of row keys. */
  readonly #scope: Uint8Array
  /** The first column of the groups, and how many columns rows of one group have in common. */
  readonly #first: number
  readonly #level: number

  constructor(view: OpenView, { columns }: SelectorIndex, request: GroupRequest, scope: Uint8Array) {
    this.#view = view
    this.#scope = scope
    this.#request = request
    const [first] = request.fields
    this.#first = first === undefined ? 0 : columns.indexOf(first)
    this.#level = first === undefined ? 0 : this.#first + request.fields.length
  }

  async within(ranges: readonly FindRange[], { skip, limit }: FindRequest): Promise<FoundGroup[]> {
    if (this.#level === 0) return [await this.#whole(ranges)].slice(skip, skip + limit)
    const found: FoundGroup[] = []
    let seen = 0
    let open: OpenGroup | undefined
    for (const range of ranges) {
      for (let rest: FindRange | undefined = range; rest && found.length < limit; ) {
        const next = await this.#nextGroup(rest)
        if (!next) break
        const isSame = open && isEqual(open.key, next.key)
        if (open && !isSame && ++seen > skip) found.push(await this.#closed(open))
        if (!open || !isSame) open = { key: next.key, rows: 0, parts: [] }
        await this.#add(open, next.range)
        rest = next.rest
      }
    }
    if (open && found.length < limit && ++seen > skip) found.push(await this.#closed(open))
    return found
  }

  async #whole(ranges: readonly FindRange[]): Promise<FoundGroup> {
    const all: OpenGroup = { key: [], rows: 0, parts: [] }
    for (const range of ranges) await this.#add(all, range)
    return this.#closed(all)
  }

  /** The group of the first row of a range, as far as it lies in that, and what is left behind it. */
  async #nextGroup(
    range: FindRange,
  ): Promise<{ key: JsonValue[]; range: FindRange; rest: FindRange | undefined } | undefined> {
    const prefix = rowPrefix(this.#view.number)
    const stored = { from: Buffer.concat([prefix, range.from]), to: Buffer.concat([prefix, range.to]) }
    const page = await orderedPage(this.#view.snapshot, stored, { rows: 1 })
    if (page.length === 0) return undefined
    const values: JsonValue[] = JSON.parse(new StoredRow(page.value(0)).key.toString())
    // Without the end of the array: rows with further columns begin with it.
    const common = collationKey(values.slice(0, this.#level)).subarray(0, -1)
    const end = Buffer.concat([this.#scope, common, Buffer.of(0xff)])
    const isLast = Buffer.compare(end, range.to) >= 0
    return {
      key: values.slice(this.#first, this.#level),
      range: isLast ? range : { ...range, to: end },
      rest: isLast ? undefined : { ...range, from: end },
    }
  }

  async #add(group: OpenGroup, { from, to }: FindRange): Promise<void> {
    const { ranks, snapshot } = this.#view
    if (this.#request.reduce.name === '_count') group.rows += await ranks.countBetween(snapshot, from, to)
    else group.parts.push(...(await ranks.reduceRange(snapshot, from, to)))
  }

  async #closed({ key, rows, parts }: OpenGroup): Promise<FoundGroup> {
    const { name } = this.#request.reduce
    if (name === '_count') return { key, value: rows }
    const figures = await this.#figures(parts)
    return { key, value: name === '_sum' ? figures.sum : { ...figures } }
  }

  async #figures(parts: readonly RangePart[]): Promise<NumberFigures> {
    if (parts.length === 0) return { sum: 0, count: 0, min: null, max: null, sumsqr: 0 }
    const [text = ''] = (await this.#view.reduce?.combine([parts])) ?? []
    return JSON.parse(text)
  }
}

/** Groups are those of the order of views. */
function isEqual(a: readonly JsonValue[], b: readonly JsonValue[]): boolean {
  return collationKey(a).equals(collationKey(b))
}
