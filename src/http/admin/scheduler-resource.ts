/** `_scheduler`: the replications of the server as clients of later releases see them. */
import { badRequest, notFound } from '../../document/request-error.ts'
import type { FollowedDocuments } from '../../replication/documents/document-jobs.ts'
import {
  DOCUMENT_STATES,
  type ScheduledDocument,
  scheduledDocument,
  scheduledDocuments,
} from '../../replication/documents/scheduled-documents.ts'
import { type Answer, json } from '../server/answer.ts'
import type { Call } from '../server/call.ts'
import type { PrimaryContext } from '../server/context.ts'
import { NODE_NAME } from './node-name.ts'

/** Rows of one reply, unless the request says otherwise. */
const DEFAULT_LIMIT = 100
/** The most rows of one reply, whatever the request says. */
const LARGEST_LIMIT = 10_000

/** `_scheduler/jobs` and `_scheduler/docs`, and what is below them. */
export async function scheduler(call: Call, context: PrimaryContext): Promise<Answer> {
  const [, resource, ...names] = call.segments
  if (resource === 'jobs') return jobsAnswer(call, context, names)
  if (resource === 'docs') return documentsAnswer(call, context, names)
  throw notFound('missing')
}

async function jobsAnswer(call: Call, { work }: PrimaryContext, names: readonly string[]): Promise<Answer> {
  const [id, ...more] = names
  if (more.length > 0) throw notFound('missing')
  if (id !== undefined) {
    const job = await work.job(id)
    if (!job) throw notFound('missing')
    return json(job)
  }
  const jobs = await work.jobs()
  const { skip, limit } = pageOf(call)
  const offset = Math.min(skip, jobs.length)
  return json({ total_rows: jobs.length, offset, jobs: jobs.slice(offset, offset + limit) })
}

async function documentsAnswer(
  call: Call,
  { replications }: PrimaryContext,
  names: readonly string[],
): Promise<Answer> {
  const { documents } = replications
  const { database, id } = namesOf(names, documents)
  if (!documents || (database !== undefined && database !== documents.database.name)) throw notFound('missing')
  if (id !== undefined) {
    const found = await scheduledDocument(documents, id)
    if (!found) throw notFound('missing')
    return json(documentRow(found))
  }
  const query = { ...pageOf(call), states: statesOf(call) }
  const { total, documents: found } = await scheduledDocuments(documents, query)
  return json({ total_rows: total, offset: Math.min(query.skip, total), docs: found.map(documentRow) })
}

/** The slashes in the name of a database need not be escaped here. */
function namesOf(
  names: readonly string[],
  documents: FollowedDocuments | undefined,
): { readonly database: string | undefined; readonly id: string | undefined } {
  const parts = documents?.database.name.split('/').length ?? 1
  const isPlain = names[0] === documents?.database.name
  const database = isPlain ? names[0] : names.slice(0, parts).join('/')
  const [id, ...more] = names.slice(isPlain ? 1 : parts)
  if (more.length > 0) throw notFound('missing')
  return { database: database === '' ? undefined : database, id }
}

function documentRow(document: ScheduledDocument): object {
  return { ...document, node: NODE_NAME, source_proxy: null, target_proxy: null }
}

function pageOf(call: Call): { readonly skip: number; readonly limit: number } {
  const limit = call.queryCount('limit') ?? DEFAULT_LIMIT
  return { skip: call.queryCount('skip') ?? 0, limit: Math.min(limit, LARGEST_LIMIT) }
}

function statesOf(call: Call): ReadonlySet<string> | undefined {
  const text = call.query('states')
  if (text === undefined || text === '') return undefined
  const states = text.split(',').map((state) => state.trim())
  const known: readonly string[] = DOCUMENT_STATES
  const unknown = states.find((state) => !known.includes(state))
  if (unknown !== undefined) throw badRequest(`Invalid state: ${unknown}`)
  return new Set(states)
}
