/** The documents of a replicator database with what became of each: the rows of `_scheduler/docs`. */
import type { DatabaseView } from '../../database/database-view.ts'
import { decodeRecord } from '../../database/layout/document-record.ts'
import { afterPrefix, DOCUMENT_PREFIX, idOfDocumentKey } from '../../database/layout/keys.ts'
import { isDesignId } from '../../document/ids.ts'
import type { KeyRange, Page } from '../../storage/store.ts'
import { shownAddress } from '../peers/address.ts'
import { type Job, timestampOf } from '../scheduler/job.ts'
import type { DocumentJob } from './document-job.ts'
import type { FollowedDocuments } from './document-jobs.ts'
import type { Members } from './replication-document.ts'

export const DOCUMENT_STATES = [
  'initializing',
  'error',
  'pending',
  'running',
  'crashing',
  'completed',
  'failed',
] as const
export type DocumentState = (typeof DOCUMENT_STATES)[number]

export interface ScheduledDocument {
  readonly database: string
  readonly doc_id: string
  /** The full replication id while there is a job. */
  readonly id: string | null
  readonly source: string | null
  readonly target: string | null
  readonly state: DocumentState
  readonly info: object | null
  readonly error_count: number
  readonly start_time: string | null
  readonly last_updated: string | null
}

export interface DocumentQuery {
  readonly skip: number
  readonly limit: number
  /** Undefined for all of them. */
  readonly states: ReadonlySet<string> | undefined
}

export interface DocumentPage {
  /** All documents of these states. */
  readonly total: number
  readonly documents: readonly ScheduledDocument[]
}

/** One document; undefined where there is none. */
export async function scheduledDocument(jobs: FollowedDocuments, id: string): Promise<ScheduledDocument | undefined> {
  using view = jobs.database.view()
  const record = await view.record(id)
  if (!record || record.deleted || isDesignId(id)) return undefined
  return await rowOf(jobs, view, { id, body: record.body })
}

/** In the order of their ids. Only those are read that are shown, or whose state decides. */
export async function scheduledDocuments(
  jobs: FollowedDocuments,
  { skip, limit, states }: DocumentQuery,
): Promise<DocumentPage> {
  using view = jobs.database.view()
  const documents: ScheduledDocument[] = []
  let total = 0
  for await (const found of liveDocuments(view)) {
    const isShown = total >= skip && documents.length < limit
    const row = isShown || states ? await rowOf(jobs, view, found) : undefined
    if (row && states && !states.has(row.state)) continue
    if (row && isShown) documents.push(row)
    total++
  }
  return { total, documents }
}

interface LiveDocument {
  readonly id: string
  /** The number of its body. */
  readonly body: number
}

async function* liveDocuments({ snapshot }: DatabaseView): AsyncGenerator<LiveDocument> {
  let rest: KeyRange | undefined = { from: DOCUMENT_PREFIX, to: afterPrefix(DOCUMENT_PREFIX) }
  while (rest) {
    const page: Page = await snapshot.page(rest)
    for (let row = 0; row < page.length; row++) {
      const id = idOfDocumentKey(page.key(row))
      const { deleted, body } = decodeRecord(page.value(row))
      if (!deleted && !isDesignId(id)) yield { id, body }
    }
    rest = page.next
  }
}

async function rowOf(
  jobs: FollowedDocuments,
  view: DatabaseView,
  { id, body }: LiveDocument,
): Promise<ScheduledDocument> {
  const members: Members = JSON.parse((await view.body(body)).text.toString())
  const documentJob = jobs.job(id)
  const common = {
    database: jobs.database.name,
    doc_id: id,
    source: shownAddress(members.source),
    target: shownAddress(members.target),
  }
  return documentJob ? { ...common, ...withJob(documentJob) } : { ...common, ...withoutJob(members, jobs) }
}

type JobMembers = Omit<ScheduledDocument, 'database' | 'doc_id' | 'source' | 'target'>

function withJob(documentJob: DocumentJob): JobMembers {
  const { status, startedMs, updatedMs } = documentJob
  const start_time = timestampOf(startedMs)
  const last_updated = timestampOf(updatedMs)
  if (status.state === 'scheduled') return { ...scheduled(status.job), start_time }
  const plain = { id: null, info: null, error_count: 0, start_time, last_updated }
  if (status.state === 'duplicate') return { ...plain, state: 'failed', info: { error: status.reason } }
  if (status.state !== 'error' && status.state !== 'failed') return { ...plain, state: status.state }
  return { ...plain, state: status.state, info: { error: status.reason }, error_count: status.errorCount }
}

function scheduled({ subject, state, progress, lastError, errorCount, history }: Job): Omit<JobMembers, 'start_time'> {
  return {
    id: subject.id,
    state,
    info: state === 'crashing' ? { error: lastError ?? '' } : (progress ?? null),
    error_count: errorCount,
    last_updated: history.lastTimestamp ?? null,
  }
}

/** What the document itself says, of one that is complete, was not looked at yet, or has its job in another server. */
function withoutJob(members: Members, { isElsewhere }: FollowedDocuments): JobMembers {
  const time = timeIn(members._replication_state_time)
  const plain = { id: null, error_count: 0, start_time: time, last_updated: time }
  if (members._replication_state !== 'completed') {
    const state = isElsewhere ? stateElsewhere(members) : 'initializing'
    const { _replication_state_reason: reason } = members
    return { ...plain, state, info: state === 'crashing' && typeof reason === 'string' ? { error: reason } : null }
  }
  const { _replication_stats: statistics } = members
  const info = typeof statistics === 'object' ? statistics : null
  return { ...plain, state: 'completed', info }
}

function stateElsewhere({ _replication_state: state }: Members): DocumentState {
  return state === 'triggered' ? 'running' : state === 'error' ? 'crashing' : 'initializing'
}

function timeIn(time: unknown): string | null {
  const timeMs = typeof time === 'string' ? Date.parse(time) : Number.NaN
  return Number.isNaN(timeMs) ? null : timestampOf(timeMs)
}
