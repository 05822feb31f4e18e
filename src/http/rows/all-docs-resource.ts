/**
 * `_all_docs` and `_design_docs`: the list of documents, sent while it is read, and several such lists at once. A list
 * has the same form as the rows of a view.
 */

import type { Database } from '../../database/database.ts'
import type { LastingView } from '../../database/database-view.ts'
import type { DatabaseState } from '../../database/layout/keys.ts'
import {
  type AllDocumentsQuery,
  countWithin,
  firstPage,
  type IdRange,
  listRange,
} from '../../database/listing/all-documents.ts'
import type { DocumentsWanted } from '../../database/listing/document-listing.ts'
import { listKeys } from '../../database/listing/listed-texts.ts'
import { DESIGN_IDS } from '../../document/ids.ts'
import { partitionIds } from '../../document/partition.ts'
import { notFound } from '../../document/request-error.ts'
import type { JsonValue } from '../../encoding/json/json-value.ts'
import type { Page, Snapshot } from '../../storage/store.ts'
import { type Partitioning, planQuery, planText, type QueryPlan } from '../../views/query/query-plan.ts'
import { type BegunQuery, RowQuery, type RowQueryHead } from '../../views/query/row-query.ts'
import { type GivenParameter, jsonParameter, textParameter } from '../../views/query/view-parameters.ts'
import { readJson } from '../bodies/request-body.ts'
import type { Answer } from '../server/answer.ts'
import { databaseOf } from '../server/authentication.ts'
import type { Call } from '../server/call.ts'
import type { HttpContext } from '../server/context.ts'
import {
  bodyParameters,
  checkedRange,
  limitedInPartition,
  listedQueries,
  queriesAnswer,
  rowAnswer,
} from './view-resource.ts'

export const getAllDocuments = getFrom(undefined)
export const postAllDocuments = postFrom(undefined)
/** `_all_docs/queries` */
export const postAllDocumentsQueries = postQueriesFrom(undefined)

/** `_design_docs`: the list as if there were no other documents. */
export const getDesignDocuments = getFrom(DESIGN_IDS)
export const postDesignDocuments = postFrom(DESIGN_IDS)
/** `_design_docs/queries` */
export const postDesignDocumentsQueries = postQueriesFrom(DESIGN_IDS)

function getFrom(within: IdRange | undefined) {
  return async (call: Call, context: HttpContext): Promise<Answer> => {
    const database = await databaseOf(call)
    const plan = planAllDocuments(call, context, { partitioning: partitioningOf(database, within) })
    return rowAnswer(call, await openAllDocuments(database, plan, { within, expectsRows: expectsRows(call) }))
  }
}

function postFrom(within: IdRange | undefined) {
  return async (call: Call, context: HttpContext): Promise<Answer> => {
    const database = await databaseOf(call)
    const body = await readJson(call, context)
    const plan = planAllDocuments(call, context, { partitioning: partitioningOf(database, within), body })
    return rowAnswer(call, await openAllDocuments(database, plan, { within, expectsRows: expectsRows(call) }))
  }
}

function postQueriesFrom(within: IdRange | undefined) {
  return async (call: Call, context: HttpContext): Promise<Answer> => {
    const database = await databaseOf(call)
    if (call.segment(2) !== 'queries') throw notFound('missing')
    const partitioning = partitioningOf(database, within)
    const queries = listedQueries(await readJson(call, context))
    const plans = queries.map((query) => planQueryOf(call, context, { partitioning, query }))
    return queriesAnswer(plans.map((plan) => () => openAllDocuments(database, plan, { within })))
  }
}

/** Design documents belong to no partition. */
function partitioningOf({ isPartitioned }: Database, within: IdRange | undefined): Partitioning {
  return isPartitioned && !within ? 'either' : 'none'
}

interface ListingRequest {
  readonly partitioning: Partitioning
  /** The parsed body of a POST; undefined where there is none. */
  readonly body?: unknown
}

/** The parameters of the query string and the body, `keys` included. Throws if they are not valid. */
export function planAllDocuments(call: Call, context: HttpContext, { partitioning, body }: ListingRequest): QueryPlan {
  const ofBody = body === undefined ? [] : bodyParameters(body)
  return planOf(call, context, partitioning, [...ofBody, ...allDocsParameters(call)])
}

/** One of several queries; what the query string says counts for all of them. */
export function planQueryOf(
  call: Call,
  context: HttpContext,
  { partitioning, query }: { readonly partitioning: Partitioning; readonly query: unknown },
): QueryPlan {
  return planOf(call, context, partitioning, [...allDocsParameters(call), ...bodyParameters(query)])
}

function planOf(
  call: Call,
  context: HttpContext,
  partitioning: Partitioning,
  parameters: readonly GivenParameter[],
): QueryPlan {
  const plan = planQuery(parameters, {}, { hasReduce: false, partitioning })
  return checkedRange(call, limitedInPartition(plan, context), 'raw')
}

/** The parameters of the query string. Ids are JSON, or the plain texts that they are. */
function allDocsParameters(call: Call): GivenParameter[] {
  if (!call.hasQuery) return []
  return call.parameterList.map(([name, text]) =>
    ID_PARAMETERS.has(name) ? jsonParameter(name, jsonOrPlain(text)) : textParameter(name, text),
  )
}

const ID_PARAMETERS = new Set(['key', 'startkey', 'start_key', 'endkey', 'end_key'])

function jsonOrPlain(text: string): JsonValue {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

/** Not where the head of the reply may be all. */
function expectsRows(call: Call): boolean {
  return call.method !== 'HEAD' && call.header('if-none-match') === undefined
}

interface OpenedListing {
  /** Those of a range of ids alone. */
  readonly within?: IdRange | undefined
  /** The first rows are read together with the head. */
  readonly expectsRows?: boolean
}

/** To be released. */
export async function openAllDocuments(
  database: Database,
  plan: QueryPlan,
  { within, expectsRows = true }: OpenedListing = {},
): Promise<RowQuery> {
  const view = database.lastingView()
  // ETag and head are of one snapshot, however long the rows take.
  const pin = view.pin()
  try {
    view.reading?.check('list')
    const listed = plan.partition === undefined ? within : partitionIds(plan.partition)
    const query = plan.keys ? undefined : { ...listQuery(database, view, plan), within: listed }
    const first = query && expectsRows ? firstPage(view, query) : undefined
    return new AllDocuments(database, view, { plan, within: listed, query, first }, await view.state(), pin)
  } catch (error) {
    view.release()
    throw error
  }
}

interface PlannedListing {
  readonly plan: QueryPlan
  readonly within: IdRange | undefined
  /** The range that is listed; undefined where keys are. */
  readonly query: AllDocumentsQuery | undefined
  /** Its first page, if it was asked for. */
  readonly first: Promise<Page> | undefined
}

class AllDocuments extends RowQuery {
  readonly #database: Database
  readonly #view: LastingView
  readonly #plan: QueryPlan
  readonly #within: IdRange | undefined
  readonly #query: AllDocumentsQuery | undefined
  readonly #first: Promise<Page> | undefined
  readonly #state: DatabaseState
  readonly #pin: Disposable

  constructor(
    database: Database,
    view: LastingView,
    { plan, within, query, first }: PlannedListing,
    state: DatabaseState,
    pin: Disposable,
  ) {
    super([database.uuid, state.updateSequence, planText(plan)])
    this.#database = database
    this.#view = view
    this.#plan = plan
    this.#within = within
    this.#query = query
    this.#first = first
    this.#state = state
    this.#pin = pin
  }

  override get snapshot(): Snapshot {
    return this.#view.snapshot
  }

  override release(): void {
    this.#view.release()
  }

  protected override async begin(): Promise<BegunQuery> {
    using _pin = this.#pin
    const { keys = [] } = this.#plan
    return this.#query ? await this.#beginRange(this.#query) : await this.#beginKeys(keys)
  }

  /** The offset has no meaning here: it is 0, and absent if there are no rows. */
  async #beginKeys(keys: readonly JsonValue[]): Promise<BegunQuery> {
    const { descending, skip, limit } = this.#plan
    const within = this.#within
    const isOfPartition = this.#plan.partition !== undefined
    const listed = within && !isOfPartition ? keys.filter((key) => isWithin(key, within)) : keys
    const chosen = (descending ? listed.toReversed() : listed).slice(skip, skip + limit)
    const head = await this.#headAt(chosen.length > 0 ? 0 : undefined)
    // Documents of other partitions are not found here.
    const isThere = within && isOfPartition ? (key: unknown) => isWithin(key, within) : undefined
    const documents = documentsWanted(this.#database, this.#view, this.#plan)
    return { head, blocks: () => listKeys(this.#view, chosen, documents, isThere) }
  }

  async #beginRange(query: AllDocumentsQuery): Promise<BegunQuery> {
    const { offset, rows } = await listRange(this.#database, this.#view, query, this.#first)
    return { head: await this.#headAt(offset), blocks: rows }
  }

  async #headAt(offset: number | undefined): Promise<RowQueryHead> {
    const total = this.#within && (await countWithin(this.#database, this.#view, this.#within))
    return {
      total_rows: total ?? this.#state.documentCount,
      ...(offset !== undefined && { offset }),
      ...(this.#plan.updateSequence && { update_seq: this.#state.updateSequence }),
    }
  }
}

function isWithin(key: unknown, range: IdRange): boolean {
  if (typeof key !== 'string') return false
  const id = Buffer.from(key)
  return Buffer.compare(id, Buffer.from(range.first)) >= 0 && Buffer.compare(id, Buffer.from(range.last)) < 0
}

/** A bound that is not a string is ignored. A document id alone counts here, since it is the key. */
function listQuery(database: Database, view: LastingView, plan: QueryPlan): AllDocumentsQuery {
  const { startKey, startId, endKey, endId, inclusiveEnd, descending, skip, limit } = plan
  return {
    start: typeof startKey === 'string' ? startKey : startId,
    end: typeof endKey === 'string' ? endKey : endId,
    inclusiveEnd,
    descending,
    skip,
    limit,
    documents: documentsWanted(database, view, plan),
  }
}

function documentsWanted(
  { attachments }: Database,
  { snapshot }: LastingView,
  plan: QueryPlan,
): DocumentsWanted | undefined {
  if (!plan.includeDocs) return undefined
  const { conflicts = false, encodingInfo } = plan
  return { conflicts, contents: plan.attachments ? attachments.beside(snapshot) : undefined, encodingInfo }
}
