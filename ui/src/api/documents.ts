/** Documents: lists in pages by keys, and single ones as texts. */
import { arrayItems, memberText, stringOf, withoutMembers } from '../json/json-text.ts'
import { ApiError, documentPath, path, requestJson, requestText } from './client.ts'

export interface ListedDocument {
  readonly id: string
  readonly rev: string
  /** The document as text, with the digits of its numbers; undefined if only ids were requested. */
  readonly text: string | undefined
}

export interface DocumentPage {
  readonly documents: readonly ListedDocument[]
  /** Of the database, or of what is listed. */
  readonly total: number
  readonly offset: number
  /** Where the next page begins. */
  readonly next: string | undefined
}

export interface PageRequest {
  readonly prefix: string
  /** The id that the page begins with. */
  readonly from: string
  readonly size: number
  readonly withDocuments: boolean
  readonly limitBytes: number
}

/** After every id that begins with the prefix. */
const LAST = '\u{10ffff}'

export async function listDocuments(
  database: string,
  request: PageRequest,
  signal: AbortSignal,
): Promise<DocumentPage> {
  const { prefix, from, size, withDocuments, limitBytes } = request
  const start = from || prefix
  const text = await requestText(`${path(database)}/_all_docs`, {
    signal,
    limitBytes,
    query: {
      limit: size + 1,
      startkey: start === '' ? undefined : JSON.stringify(start),
      endkey: prefix === '' ? undefined : JSON.stringify(prefix + LAST),
      include_docs: withDocuments || undefined,
      conflicts: withDocuments || undefined,
    },
  })
  const rows = arrayItems(memberText(text, 'rows') ?? '[]').map(listedDocument)
  return {
    documents: rows.slice(0, size),
    total: Number(memberText(text, 'total_rows') ?? 0),
    offset: Number(memberText(text, 'offset') ?? 0),
    next: rows[size]?.id,
  }
}

function listedDocument(row: string): ListedDocument {
  const { id, value }: { id: string; value: { rev: string } } = JSON.parse(withoutMembers(row, ['doc', 'key']))
  return { id, rev: value.rev, text: memberText(row, 'doc') }
}

/** Where the page before this one begins; nothing when it is the first. */
export async function previousPageStart(
  database: string,
  { prefix, first, size }: { prefix: string; first: string; size: number },
): Promise<string> {
  const { rows } = await requestJson<{ rows: { id: string }[] }>(`${path(database)}/_all_docs`, {
    query: {
      descending: true,
      startkey: JSON.stringify(first),
      endkey: prefix === '' ? undefined : JSON.stringify(prefix),
      skip: 1,
      limit: size,
    },
  })
  return rows.length < size ? '' : (rows.at(-1)?.id ?? '')
}

export interface AttachmentStub {
  readonly name: string
  readonly contentType: string
  readonly length: number
  readonly digest: string
}

export interface LoadedDocument {
  readonly id: string
  readonly rev: string
  /** As it is stored, with `_id`, `_rev` and stubs of attachments. */
  readonly text: string
  readonly conflicts: readonly string[]
  readonly attachments: readonly AttachmentStub[]
}

export async function loadDocument(
  database: string,
  id: string,
  options: { rev?: string | undefined; limitBytes?: number; signal?: AbortSignal } = {},
): Promise<LoadedDocument> {
  const { rev, limitBytes, signal } = options
  const text = await requestText(documentPath(database, id), {
    query: { conflicts: true, rev },
    ...(limitBytes !== undefined && { limitBytes }),
    ...(signal && { signal }),
  })
  const conflicts = memberText(text, '_conflicts')
  return {
    id,
    rev: stringOf(memberText(text, '_rev')) ?? '',
    text: conflicts === undefined ? text.trim() : withoutMembers(text, ['_conflicts']),
    conflicts: conflicts === undefined ? [] : JSON.parse(conflicts),
    attachments: stubsIn(text),
  }
}

function stubsIn(text: string): AttachmentStub[] {
  const stubs: Record<string, { content_type: string; length: number; digest: string }> = JSON.parse(
    memberText(text, '_attachments') ?? '{}',
  )
  return Object.entries(stubs).map(([name, { content_type, length, digest }]) => ({
    name,
    contentType: content_type,
    length,
    digest,
  }))
}

export interface Written {
  readonly id: string
  readonly rev: string
}

/** The text goes out as it is. */
export function saveDocument(database: string, id: string | undefined, text: string): Promise<Written> {
  if (id === undefined) return requestJson(path(database), { method: 'POST', jsonText: text })
  return requestJson(documentPath(database, id), { method: 'PUT', jsonText: text })
}

export function deleteDocument(database: string, id: string, rev: string): Promise<Written> {
  return requestJson(documentPath(database, id), { method: 'DELETE', query: { rev } })
}

export async function copyDocument(database: string, id: string, target: string): Promise<Written> {
  const destination = target.startsWith('_design/') ? `_design/${path(target.slice(8))}` : path(target)
  return requestJson(documentPath(database, id), { method: 'COPY', headers: { Destination: destination } })
}

export interface BulkOutcome {
  readonly done: number
  readonly failures: readonly { id: string; reason: string }[]
}

interface BulkEntry {
  readonly id: string
  readonly error?: string
  readonly reason?: string
}

export async function deleteDocuments(database: string, documents: readonly Written[]): Promise<BulkOutcome> {
  const docs = documents.map(({ id, rev }) => ({ _id: id, _rev: rev, _deleted: true }))
  const entries = await requestJson<BulkEntry[]>(`${path(database)}/_bulk_docs`, { method: 'POST', json: { docs } })
  const failures = entries.flatMap(({ id, error, reason }) => (error ? [{ id, reason: reason ?? error }] : []))
  return { done: documents.length - failures.length, failures }
}

export function isConflict(error: unknown): boolean {
  return error instanceof ApiError && error.status === 409
}
