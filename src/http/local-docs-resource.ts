/** `_local_docs`: the list of local documents, which nothing else lists. */
import { listLocalKeys, listLocalRange } from '../database/local-documents.ts'
import { replyChunks } from '../views/query/reply-text.ts'
import { planAllDocuments } from './all-docs-request.ts'
import { type Answer, streamed } from './answer.ts'
import type { Call } from './call.ts'
import type { HttpContext } from './context.ts'
import { databaseOf } from './database-resource.ts'
import { readJson } from './request-body.ts'

export function getLocalDocuments(call: Call, context: HttpContext): Promise<Answer> {
  return localDocuments(call, context, undefined)
}

export async function postLocalDocuments(call: Call, context: HttpContext): Promise<Answer> {
  return localDocuments(call, context, await readJson(call, context))
}

/** Without a tag: the sequence of the database says nothing about local documents. */
async function localDocuments(call: Call, context: HttpContext, body: unknown): Promise<Answer> {
  const database = await databaseOf(call, context)
  const { keys, startKey, startId, endKey, endId, ...plan } = planAllDocuments(call, body)
  const view = database.lastingView()
  try {
    view.reading?.check('list')
  } catch (error) {
    view.release()
    throw error
  }
  const start = typeof startKey === 'string' ? startKey : startId
  const end = typeof endKey === 'string' ? endKey : endId
  const { descending, skip, limit, includeDocs } = plan
  const chosen = keys && (descending ? keys.toReversed() : keys).slice(skip, skip + limit)
  const rows = chosen ? listLocalKeys(view, chosen, includeDocs) : listLocalRange(view, { ...plan, start, end })
  return streamed(replyChunks(NOT_COUNTED, rows), { release: () => view.release() })
}

const NOT_COUNTED = { total_rows: null, offset: null }
