/** `PUT`, `POST`, `DELETE` and `COPY` of documents, including design and local documents. */

import type { Dialect } from '../../config/dialect.ts'
import {
  type AttachmentEdits,
  attachmentEdits,
  attachmentPolicy,
  NO_EDITS,
  type StubParent,
} from '../../database/attachments/attachment-edits.ts'
import type { Database } from '../../database/database.ts'
import { openDocument, openRevision } from '../../database/reading/open-document.ts'
import type { DocumentEdit } from '../../database/writing/edit.ts'
import { replicatedPath, type SentDocument } from '../../document/document-fields.ts'
import { type DocumentId, isLocalId, parseDocumentId, parseRevision, type RevisionId } from '../../document/ids.ts'
import { badRequest, missingStub, notFound } from '../../document/request-error.ts'
import { EMPTY_BODY_TERM } from '../../document/revisions/new-revision.ts'
import { scanDocument } from '../../encoding/json/json-text.ts'
import { documentIn } from '../../scan/json-body.ts'
import { type ReceivedDocument, receiveRelated } from '../attachments/multipart-document.ts'
import { checkDocumentSize, isRelated, readingLimits, readJsonText, requireJsonType } from '../bodies/request-body.ts'
import { type Answer, json } from '../server/answer.ts'
import { databaseOf } from '../server/authentication.ts'
import type { Call } from '../server/call.ts'
import type { HttpContext } from '../server/context.ts'
import { documentIdOf, documentSegments } from '../server/route.ts'

export async function putDocument(call: Call, context: HttpContext): Promise<Answer> {
  const id = parseDocumentId(documentIdOf(call))
  const database = await databaseOf(call)
  database.checkTarget(id, 'document')
  const received = isRelated(call)
    ? await receiveRelated(call, context, database)
    : { document: await readSent(call, context, id), followed: new Map(), release: () => {} }
  try {
    checkDocumentSize(received.document, context)
    return await write(call, context, database, id, received)
  } finally {
    received.release()
  }
}

/** `POST /{db}`: the server chooses the id where the document has none. */
export async function postDocument(call: Call, context: HttpContext): Promise<Answer> {
  const database = await databaseOf(call)
  requireJsonType(call)
  const document = await readSent(call, context)
  checkDocumentSize(document, context)
  const id = document.id ?? parseDocumentId(context.uuids.next())
  return write(call, context, database, id, { document, followed: new Map(), release: () => {} })
}

async function readSent(call: Call, context: HttpContext, id?: DocumentId): Promise<SentDocument> {
  const text = await readJsonText(call, context)
  return documentIn(text, readingLimits(call, context), id)
}

async function write(
  call: Call,
  context: HttpContext,
  database: Database,
  id: DocumentId,
  { document, followed }: ReceivedDocument,
): Promise<Answer> {
  const named = namedParent(call, document)
  const isReplicated = call.query('new_edits')?.toLowerCase() === 'false'
  const sent = isReplicated
    ? { id, document: { ...document, revision: named }, mode: { replicated: true as const }, followed }
    : { id, document, mode: { parent: named }, followed }
  return withEdit(call, context, database, sent, (edit) => writeAnswer(call, database, edit))
}

export async function deleteDocument(call: Call): Promise<Answer> {
  const id = documentIdOf(call)
  const database = await databaseOf(call)
  await assertDeletable(database, id)
  const parent = namedParent(call, undefined)
  const edit: DocumentEdit = isLocalId(id)
    ? { kind: 'local', id, parent: localParent(parent, call.dialect), deleted: true, body: EMPTY_BODY }
    : { kind: 'interactive', id, parent, deleted: true, body: EMPTY_BODY, term: EMPTY_BODY_TERM }
  return writeAnswer(call, database, edit)
}

const EMPTY_BODY = Buffer.from('{}')

/** A missing document is 404, whatever revision is named. */
async function assertDeletable(database: Database, id: string): Promise<void> {
  using view = database.view()
  if (isLocalId(id)) {
    if (!(await view.local(id))) throw notFound('missing')
    return
  }
  // A user who may not read a document must not learn that it exists.
  if (view.reading) await openDocument(view, id)
  const record = await view.record(id)
  if (!record) throw notFound('missing')
  if (record.deleted) throw notFound('deleted')
}

export async function copyDocument(call: Call): Promise<Answer> {
  const id = documentIdOf(call)
  const { target, parent } = destinationOf(call)
  const database = await databaseOf(call)
  const revision = namedParent(call, undefined)
  using view = database.view()
  const source = revision === undefined ? await openDocument(view, id) : await openRevision(view, id, revision)
  view.release()
  const { body, term } = scanDocument(source.parts.body)
  if (isLocalId(target)) {
    const edit = { kind: 'local', id: target, parent: localParent(parent, call.dialect), deleted: false, body } as const
    return await writeAnswer(call, database, edit)
  }
  const edits = await keptAttachments(database, target, source.attachments)
  const { attachments } = edits
  const edit: DocumentEdit = {
    kind: 'interactive',
    id: target,
    parent,
    deleted: source.deleted,
    body,
    term,
    attachments,
  }
  try {
    return await writeAnswer(call, database, edit)
  } finally {
    edits.release()
  }
}

/** The same attachments for another revision, which shares their bytes. */
export async function keptAttachments(
  database: Database,
  id: string,
  records: Awaited<ReturnType<typeof openDocument>>['attachments'],
): Promise<AttachmentEdits> {
  const releases: (() => void)[] = []
  const release = () => {
    for (const each of releases) each()
  }
  for (const record of records) {
    const kept = await database.attachments.keep(record)
    if (!kept) {
      release()
      throw missingStub(`id:${id}, name:${record.name}`)
    }
    releases.push(kept)
  }
  return { attachments: records.map((record) => ({ ...record, puts: [] })), release }
}

function destinationOf(call: Call): { target: DocumentId; parent: RevisionId | undefined } {
  const destination = call.header('destination')
  if (destination === undefined) throw badRequest('Destination header is mandatory for COPY.')
  if (/^https?:\/\//.test(destination)) throw badRequest('Destination URL must be relative.')
  const [path = '', query = ''] = destination.split('?', 2)
  const revision = new URLSearchParams(query).get('rev')
  return {
    target: parseDocumentId(decodedDestination(path)),
    parent: revision === null ? undefined : parseRevision(revision),
  }
}

function decodedDestination(path: string): string {
  try {
    return decodeURIComponent(path)
  } catch {
    throw badRequest('The Destination header cannot be decoded.')
  }
}

/** How a document from a request is written. */
export type EditMode =
  /** A new revision with this parent; with `branching` also where that makes a conflict. */
  | { readonly parent: RevisionId | undefined; readonly branching?: boolean; readonly replicated?: false }
  /** A revision of another server, stored as it is. */
  | { readonly replicated: true }

/** A document from a request, and how it is written. */
export interface SentEdit {
  readonly id: DocumentId
  readonly document: SentDocument
  readonly mode: EditMode
  /** Contents of attachments that came in separate parts, by name. */
  readonly followed?: ReceivedDocument['followed']
}

/** Stages the attachments of a sent document and hands its edit to `use`; what was staged is released after that. */
export async function withEdit<Result>(
  call: Call,
  context: HttpContext,
  database: Database,
  sent: SentEdit,
  use: (edit: DocumentEdit) => Promise<Result>,
): Promise<Result> {
  const { id, document, mode } = sent
  if (!hasAttachments(id, document)) return use(editOf(id, document, mode, NO_EDITS, call.dialect))
  const edits = await stagedAttachments(context, database, sent)
  try {
    return await use(editOf(id, document, mode, edits, call.dialect))
  } finally {
    edits.release()
  }
}

export function stagedAttachments(
  { configuration }: HttpContext,
  database: Database,
  { id, document, mode, followed }: SentEdit,
): Promise<AttachmentEdits> {
  const parent = stubParentOf(document, mode)
  return attachmentEdits(database, id, document.attachments, parent, attachmentPolicy(configuration), followed)
}

/** Local documents have no attachments, whatever is sent. */
export function hasAttachments(id: DocumentId, { attachments }: SentDocument): boolean {
  return attachments.length > 0 && !isLocalId(id)
}

/** The edit for the write queue. */
export function editOf(
  id: string,
  document: SentDocument,
  mode: EditMode,
  { attachments, refusal }: AttachmentEdits,
  dialect: Dialect,
): DocumentEdit {
  const { body, term, deleted } = document
  if (isLocalId(id)) {
    const parent = mode.replicated ? 'any' : localParent(mode.parent, dialect)
    return { kind: 'local', id, parent, deleted, body }
  }
  if (mode.replicated) {
    return { kind: 'replicated', id, path: replicatedPath(document), deleted, body, attachments, refusal }
  }
  const kind = mode.branching ? 'branching' : 'interactive'
  return { kind, id, parent: mode.parent, deleted, body, term, attachments, refusal }
}

/** The revision that a local document must have to be written; dialect 3 does not ask for one. */
function localParent(parent: RevisionId | undefined, dialect: Dialect): RevisionId | 'any' | undefined {
  return dialect === '3' ? 'any' : parent
}

/** The revision whose attachments the stubs of a document refer to. */
function stubParentOf(document: SentDocument, mode: EditMode): StubParent {
  if (mode.replicated) return { kind: 'replicated', path: replicatedPath(document) }
  return { kind: mode.branching ? 'branching' : 'interactive', parent: mode.parent }
}

/**
 * Writes one edit and answers with its outcome. `created` is the address of what was created, below the database: the
 * document unless given, null when nothing was.
 */
export async function writeAnswer(
  call: Call,
  database: Database,
  edit: DocumentEdit,
  created: readonly string[] | null = edit.deleted ? null : documentSegments(edit.id),
): Promise<Answer> {
  const { id } = edit
  const headers = created ? { Location: call.location(database.name, ...created) } : {}
  if (call.query('batch') === 'ok') {
    await database.writeLater(edit)
    return json({ ok: true, id }, { status: 202, headers })
  }
  const revision = await writeOne(database, edit)
  return json(
    { ok: true, id, rev: revision },
    { status: created ? 201 : 200, headers: { ...headers, ETag: `"${revision}"` } },
  )
}

/** The revision that one edit made; throws if the edit is refused. */
export async function writeOne(database: Database, edit: DocumentEdit): Promise<RevisionId> {
  const [outcome] = await database.write([edit])
  if (outcome?.outcome !== 'written') throw outcome?.error ?? new Error('A write has no outcome.')
  return outcome.revision
}

/** The revision to be replaced: in the body, the query or `If-Match`, which must not disagree. */
export function namedParent(call: Call, document: SentDocument | undefined): RevisionId | undefined {
  const inBody = document?.revision
  const inQuery = call.queryRevision('rev')
  if (inBody !== undefined && inQuery !== undefined && inBody !== inQuery) {
    throw badRequest('Document rev from request body and query string have different values')
  }
  const named = inBody ?? inQuery
  const { matchedTag } = call
  const inHeader = matchedTag === undefined ? undefined : parseRevision(matchedTag)
  if (named !== undefined && inHeader !== undefined && named !== inHeader) {
    throw badRequest('Document rev and etag have different values')
  }
  return named ?? inHeader
}
