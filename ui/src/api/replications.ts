/** Replications: documents of the replicator database, and those that requests began. */

import { requestJson, requestText } from './client.ts'
import { deleteDocument, loadDocument, saveDocument } from './documents.ts'

export interface Replication {
  readonly key: string
  readonly source: string
  readonly target: string
  /** The state, as the server names it. */
  readonly state: string
  /** What failed, in the server's words. */
  readonly failure: string | undefined
  readonly isContinuous: boolean
  readonly written: number | undefined
  readonly pending: number | undefined
  readonly sinceMs: number | undefined
  readonly nextTryMs: number | undefined
  /** Its document; without one it lasts until the server stops. */
  readonly document: { readonly database: string; readonly id: string } | undefined
  readonly history: readonly { readonly timestamp: string; readonly type: string; readonly reason?: string }[]
}

interface Progress {
  readonly docs_written?: number
  readonly changes_pending?: number | null
  readonly error?: unknown
  readonly [name: string]: unknown
}

interface DocumentRow {
  readonly database: string
  readonly doc_id: string
  readonly id: string | null
  readonly source: string
  readonly target: string
  readonly state: string | null
  readonly info: Progress | null
  readonly last_updated?: string
  readonly start_time?: string
  readonly error_count?: number
  readonly continuous?: boolean
}

interface JobRow {
  readonly id: string
  readonly source: string
  readonly target: string
  readonly doc_id: string | null
  readonly info: Progress | null
  readonly start_time: string | null
  readonly history: Replication['history']
}

export async function listReplications(): Promise<Replication[]> {
  const [{ docs }, { jobs }] = await Promise.all([
    requestJson<{ docs: DocumentRow[] }>('_scheduler/docs', { query: { limit: 1_000 } }),
    requestJson<{ jobs: JobRow[] }>('_scheduler/jobs', { query: { limit: 1_000 } }),
  ])
  const history = new Map(jobs.map((job) => [job.id, job.history]))
  const kept = docs.map(
    (row): Replication => ({
      key: `${row.database}/${row.doc_id}`,
      source: row.source,
      target: row.target,
      state: row.state ?? 'initializing',
      failure: failureIn(row.info),
      isContinuous: row.continuous ?? row.id?.includes('continuous') ?? false,
      written: row.info?.docs_written,
      pending: row.info?.changes_pending ?? undefined,
      sinceMs: timeOf(row.last_updated ?? row.start_time),
      nextTryMs: undefined,
      document: { database: row.database, id: row.doc_id },
      history: history.get(row.id ?? '') ?? [],
    }),
  )
  const others = jobs
    .filter(({ doc_id }) => doc_id === null)
    .map(
      (job): Replication => ({
        key: job.id,
        source: job.source,
        target: job.target,
        state: job.history[0]?.type === 'crashed' ? 'crashing' : 'running',
        failure: job.history[0]?.reason ?? failureIn(job.info),
        isContinuous: job.id.includes('continuous'),
        written: job.info?.docs_written,
        pending: job.info?.changes_pending ?? undefined,
        sinceMs: timeOf(job.start_time),
        nextTryMs: undefined,
        document: undefined,
        history: job.history,
      }),
    )
  return [...kept, ...others]
}

function failureIn(info: Progress | null): string | undefined {
  const error = info?.error
  if (error === undefined || error === null) return undefined
  return typeof error === 'string' ? error : JSON.stringify(error)
}

function timeOf(text: string | null | undefined): number | undefined {
  const time = text ? Date.parse(text) : Number.NaN
  return Number.isNaN(time) ? undefined : time
}

export interface NewReplication {
  readonly source: string
  readonly target: string
  readonly continuous: boolean
  readonly create_target: boolean
  readonly filter: string
  readonly doc_ids: readonly string[]
}

function bodyOf({ source, target, continuous, create_target, filter, doc_ids }: NewReplication): object {
  return {
    source,
    target,
    ...(continuous && { continuous }),
    ...(create_target && { create_target }),
    ...(filter !== '' && { filter }),
    ...(doc_ids.length > 0 && { doc_ids }),
  }
}

/** Answered when it is done, or at once when it is continuous. */
export function replicateNow(replication: NewReplication): Promise<{ history?: readonly { docs_written?: number }[] }> {
  return requestJson('_replicate', { method: 'POST', json: bodyOf(replication) })
}

/** Persistent: it survives restarts of the server. */
export async function keepReplication(replication: NewReplication, name: string | null): Promise<void> {
  const owner = name === null ? {} : { user_ctx: { name, roles: ['_admin'] } }
  await saveDocument('_replicator', undefined, JSON.stringify({ ...bodyOf(replication), ...owner }))
}

export async function cancelReplication({ key, document }: Replication): Promise<void> {
  if (document) {
    const { rev } = await loadDocument(document.database, document.id)
    await deleteDocument(document.database, document.id, rev)
  } else await requestText('_replicate', { method: 'POST', json: { replication_id: key, cancel: true } })
}
