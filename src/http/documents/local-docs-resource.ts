/** `_local_docs`: the list of local documents, which nothing else lists. */
import type { Database } from '../../database/database.ts'
import type { LastingView } from '../../database/database-view.ts'
import { listLocalKeys, listLocalRange } from '../../database/listing/local-documents.ts'
import { notFound } from '../../document/request-error.ts'
import type { Snapshot } from '../../storage/store.ts'
import type { QueryPlan } from '../../views/query/query-plan.ts'
import { type BegunQuery, RowQuery } from '../../views/query/row-query.ts'
import { readJson } from '../bodies/request-body.ts'
import { planAllDocuments, planQueryOf } from '../rows/all-docs-resource.ts'
import { listedQueries, queriesAnswer } from '../rows/view-resource.ts'
import { type Answer, streamed } from '../server/answer.ts'
import { databaseOf } from '../server/authentication.ts'
import type { Call } from '../server/call.ts'
import type { HttpContext } from '../server/context.ts'

export function getLocalDocuments(call: Call, context: HttpContext): Promise<Answer> {
  return localDocuments(call, context, undefined)
}

export async function postLocalDocuments(call: Call, context: HttpContext): Promise<Answer> {
  return localDocuments(call, context, await readJson(call, context))
}

/** `_local_docs/queries` */
export async function postLocalDocumentsQueries(call: Call, context: HttpContext): Promise<Answer> {
  const database = await databaseOf(call)
  if (call.segment(2) !== 'queries') throw notFound('missing')
  const queries = listedQueries(await readJson(call, context))
  const plans = queries.map((query) => planQueryOf(call, context, { partitioning: 'none', query }))
  return queriesAnswer(plans.map((plan) => () => openLocalDocuments(database, plan)))
}

/** Without an ETag: writes of local documents do not change the update sequence. */
async function localDocuments(call: Call, context: HttpContext, body: unknown): Promise<Answer> {
  const plan = planAllDocuments(call, context, { partitioning: 'none', body })
  const query = openLocalDocuments(await databaseOf(call), plan)
  return streamed(query.chunks(), { release: () => query.release() })
}

function openLocalDocuments(database: Database, plan: QueryPlan): LocalDocumentsQuery {
  const view = database.lastingView()
  try {
    view.reading?.check('list')
  } catch (error) {
    view.release()
    throw error
  }
  return new LocalDocumentsQuery(view, plan)
}

class LocalDocumentsQuery extends RowQuery {
  readonly #view: LastingView
  readonly #plan: QueryPlan

  constructor(view: LastingView, plan: QueryPlan) {
    super([])
    this.#view = view
    this.#plan = plan
  }

  override get snapshot(): Snapshot {
    return this.#view.snapshot
  }

  override release(): void {
    this.#view.release()
  }

  protected override async begin(): Promise<BegunQuery> {
    const { keys, startKey, startId, endKey, endId, ...plan } = this.#plan
    const start = typeof startKey === 'string' ? startKey : startId
    const end = typeof endKey === 'string' ? endKey : endId
    const { descending, skip, limit, includeDocs } = plan
    const chosen = keys && (descending ? keys.toReversed() : keys).slice(skip, skip + limit)
    const view = this.#view
    return {
      head: { total_rows: null, offset: null },
      blocks: () => (chosen ? listLocalKeys(view, chosen, includeDocs) : listLocalRange(view, { ...plan, start, end })),
    }
  }
}
