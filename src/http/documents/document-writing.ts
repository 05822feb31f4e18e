/** `PUT`, `POST`, `DELETE` and `COPY` of documents. Design and local documents alike. */
import { type AttachmentEdits, attachmentEdits, NO_EDITS } from '../../database/attachments/attachment-edits.ts'
import { attachmentPolicy } from '../../database/attachments/attachment-policy.ts'
import type { Database } from '../../database/database.ts'
import { openDocument, openRevision } from '../../database/reading/open-document.ts'
import type { DocumentEdit } from '../../database/writing/edit.ts'
import type { SentDocument } from '../../document/document-fields.ts'
import { type DocumentId, isLocalId, parseDocumentId } from '../../document/document-id.ts'
import { badRequest, missingStub, notFound } from '../../document/request-error.ts'
import { EMPTY_BODY_TERM } from '../../document/revisions/new-revision.ts'
import { parseRevision, type RevisionId } from '../../document/revisions/revision-id.ts'
import { scanDocument } from '../../encoding/json/json-text.ts'
import { documentIn } from '../../scan/json-body.ts'
import { isRelated, type ReceivedDocument, receiveRelated } from '../attachments/multipart-document.ts'
import { readJsonText, requireJsonType } from '../bodies/request-body.ts'
import { databaseOf } from '../databases/database-resource.ts'
import type { Answer } from '../server/answer.ts'
import type { Call } from '../server/call.ts'
import type { HttpContext } from '../server/context.ts'
import { editOf, localParent, stubParentOf } from './document-edit.ts'
import { documentIdOf } from './document-path.ts'
import { checkDocumentSize } from './document-size.ts'
import { namedParent } from './revision-parameter.ts'
import { writeAnswer } from './write-answer.ts'

export async function putDocument(call: Call, context: HttpContext): Promise<Answer> {
  const id = parseDocumentId(documentIdOf(call))
  const database = await databaseOf(call, context)
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

/** `POST /{db}`: a document that may leave its id to the server. */
export async function postDocument(call: Call, context: HttpContext): Promise<Answer> {
  const database = await databaseOf(call, context)
  requireJsonType(call)
  const document = await readSent(call, context)
  checkDocumentSize(document, context)
  const id = document.id ?? parseDocumentId(context.uuids.next())
  return write(call, context, database, id, { document, followed: new Map(), release: () => {} })
}

async function readSent(call: Call, context: HttpContext, id?: DocumentId): Promise<SentDocument> {
  const text = await readJsonText(call, context)
  return documentIn(text, id)
}

async function write(
  call: Call,
  context: HttpContext,
  database: Database,
  id: DocumentId,
  { document, followed }: ReceivedDocument,
): Promise<Answer> {
  const isReplicated = call.query('new_edits')?.toLowerCase() === 'false'
  const mode = isReplicated ? { replicated: true as const } : { parent: namedParent(call, document) }
  const edits =
    isLocalId(id) || document.attachments.length === 0
      ? NO_EDITS
      : await attachmentEdits(
          database,
          id,
          document.attachments,
          stubParentOf(document, mode),
          attachmentPolicy(context.configuration),
          followed,
        )
  return writeAndRelease(call, database, editOf(id, document, mode, edits, call.dialect), edits)
}

async function writeAndRelease(
  call: Call,
  database: Database,
  edit: DocumentEdit,
  edits: AttachmentEdits,
): Promise<Answer> {
  try {
    return await writeAnswer(call, database, edit)
  } finally {
    edits.release()
  }
}

export async function deleteDocument(call: Call, context: HttpContext): Promise<Answer> {
  const id = documentIdOf(call)
  const database = await databaseOf(call, context)
  await assertDeletable(database, id)
  const parent = namedParent(call, undefined)
  const edit: DocumentEdit = isLocalId(id)
    ? { kind: 'local', id, parent: localParent(parent, call.dialect), deleted: true, body: EMPTY_BODY }
    : { kind: 'interactive', id, parent, deleted: true, body: EMPTY_BODY, term: EMPTY_BODY_TERM }
  return writeAnswer(call, database, edit)
}

const EMPTY_BODY = Buffer.from('{}')

/** A document that is not there is not found, whatever revision is named. */
async function assertDeletable(database: Database, id: string): Promise<void> {
  using view = database.view()
  if (isLocalId(id)) {
    if (!(await view.local(id))) throw notFound('missing')
    return
  }
  // Whoever may not see a document is not told that it is there.
  if (view.reading) await openDocument(view, id)
  const record = await view.record(id)
  if (!record) throw notFound('missing')
  if (record.deleted) throw notFound('deleted')
}

export async function copyDocument(call: Call, context: HttpContext): Promise<Answer> {
  const id = documentIdOf(call)
  const { target, parent } = destinationOf(call)
  const database = await databaseOf(call, context)
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
  return await writeAndRelease(call, database, edit, edits)
}

/** The same attachments for another revision: their bytes are shared. */
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
