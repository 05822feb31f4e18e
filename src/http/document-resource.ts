/** One document: read in all its forms, written, deleted, copied. Design and local documents alike. */
import type { Database } from '../database/database.ts'
import type { DocumentEdit } from '../database/edit.ts'
import { openDocument, openRevision, openRevisions, type ReadOptions } from '../database/open-document.ts'
import { parseDocument, type SentDocument } from '../document/document-fields.ts'
import { type DocumentId, isDesignId, isLocalId, parseDocumentId } from '../document/document-id.ts'
import { EMPTY_BODY_TERM } from '../document/new-revision.ts'
import { badRequest, notFound, RequestError } from '../document/request-error.ts'
import { parseRevision, type RevisionId } from '../document/revision-id.ts'
import { scanDocument } from '../encoding/json-text.ts'
import { type Answer, json, jsonText, notModified, redirect, type StreamedAnswer } from './answer.ts'
import type { Call } from './call.ts'
import type { HttpContext } from './context.ts'
import { databaseOf } from './database-resource.ts'
import { editOf } from './document-edit.ts'
import { checkDocumentSize } from './document-size.ts'
import { parsing, readJsonText, requireJsonType } from './request-body.ts'
import { namedParent, revisionParameter } from './revision-parameter.ts'

/** The id that the path names: `/{db}/{docid}`, `/{db}/_design/{name}` or `/{db}/_local/{name}`. */
export function documentIdOf(call: Call): string {
  const id = call.segments.slice(1).join('/')
  if (id === '_local' || id === '_local/') throw badRequest('Invalid _local document id.')
  return id
}

export async function readDocument(call: Call, context: HttpContext): Promise<Answer> {
  const id = documentIdOf(call)
  if (isEscapedDesign(call)) return redirectToDesign(call)
  const database = await databaseOf(call, context)
  const openRevs = call.query('open_revs')
  if (openRevs !== undefined && openRevs !== '[]' && !isLocalId(id)) return readRevisions(call, database, id, openRevs)
  using view = database.view()
  const revision = revisionParameter(call)
  const options = readOptions(call)
  const document =
    revision === undefined
      ? await openDocument(view, id, options)
      : await openRevision(view, id, revision, { ...options, latest: call.querySwitch('latest') })
  if (!hasTag(options)) return jsonText(document.text)
  const tag = `"${document.revision}"`
  return call.hasTag(tag) ? notModified(tag) : jsonText(document.text, { headers: { ETag: tag } })
}

/** A revision says nothing about what is beside it, such as conflicts. */
function hasTag({ revisionsInfo, conflicts, deletedConflicts, localSequence }: ReadOptions): boolean {
  return !(revisionsInfo || conflicts || deletedConflicts || localSequence)
}

function readOptions(call: Call): ReadOptions {
  const meta = call.querySwitch('meta')
  return {
    revisions: call.querySwitch('revs'),
    revisionsInfo: meta || call.querySwitch('revs_info'),
    conflicts: meta || call.querySwitch('conflicts'),
    deletedConflicts: meta || call.querySwitch('deleted_conflicts'),
    localSequence: call.querySwitch('local_seq'),
  }
}

/** Whether the slash of a design document's id was escaped: it has another address then. */
export function isEscapedDesign(call: Call): boolean {
  return isDesignId(call.segment(1))
}

export function redirectToDesign(call: Call): Answer {
  const target = call.url.replace(/_design%2f/i, '_design/')
  return redirect(301, call.location().slice(0, -1) + target)
}

async function readRevisions(call: Call, database: Database, id: string, openRevs: string): Promise<StreamedAnswer> {
  const wanted = openRevs === 'all' ? 'all' : parseRevisionList(openRevs)
  const view = database.view()
  const options = { revisions: call.querySwitch('revs'), latest: call.querySwitch('latest') }
  async function* chunks(): AsyncGenerator<string> {
    const items = (await openRevisions(view, id, wanted, options)).map((each) =>
      each.found ? `{"ok":${each.document.text}}` : `{"missing":${JSON.stringify(each.revision)}}`,
    )
    yield `[${items.join(',')}]\n`
  }
  return { kind: 'streamed', status: 200, headers: {}, chunks: chunks(), release: () => view.release() }
}

function parseRevisionList(text: string): RevisionId[] {
  const list = parsing(() => parseJson(text))
  if (!Array.isArray(list)) throw badRequest('open_revs must be `all` or a JSON array of revisions')
  return list.map(parseRevision)
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw badRequest('invalid_json')
  }
}

export async function putDocument(call: Call, context: HttpContext): Promise<Answer> {
  const id = parseDocumentId(documentIdOf(call))
  const database = await databaseOf(call, context)
  const document = await readSent(call, context, id)
  return write(call, database, id, document)
}

/** `POST /{db}`: a document that may leave its id to the server. */
export async function postDocument(call: Call, context: HttpContext): Promise<Answer> {
  const database = await databaseOf(call, context)
  requireJsonType(call)
  const document = await readSent(call, context)
  const id = document.id ?? parseDocumentId(context.uuids.next())
  return write(call, database, id, document)
}

/** `POST /{db}/{docid}`: what a form in a browser sends, and only one of this server's own pages. */
export async function uploadForm(call: Call, context: HttpContext): Promise<Answer> {
  documentIdOf(call)
  await databaseOf(call, context)
  const referer = call.header('referer')
  if (referer === undefined) throw badRequest('Referer header required.')
  if (!URL.canParse(referer) || new URL(referer).host !== call.header('host')) {
    throw badRequest('Referer header must match host.')
  }
  throw new RequestError(415, 'bad_content_type', 'Forms are not taken yet.')
}

export async function deleteDocument(call: Call, context: HttpContext): Promise<Answer> {
  const id = documentIdOf(call)
  const database = await databaseOf(call, context)
  await assertDeletable(database, id)
  const parent = namedParent(call, undefined)
  const edit: DocumentEdit = isLocalId(id)
    ? { kind: 'local', id, parent, deleted: true, body: EMPTY_BODY }
    : { kind: 'interactive', id, parent, deleted: true, body: EMPTY_BODY, term: EMPTY_BODY_TERM }
  return written(call, database, edit)
}

const EMPTY_BODY = Buffer.from('{}')

/** A document that is not there is not found, whatever revision is named. */
async function assertDeletable(database: Database, id: string): Promise<void> {
  using view = database.view()
  if (isLocalId(id)) {
    if (!(await view.local(id))) throw notFound('missing')
    return
  }
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
  const { body, term } = scanDocument(source.text)
  const edit: DocumentEdit = isLocalId(target)
    ? { kind: 'local', id: target, parent, deleted: false, body }
    : { kind: 'interactive', id: target, parent, deleted: source.deleted, body, term }
  return written(call, database, edit)
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

async function readSent(call: Call, context: HttpContext, id?: DocumentId): Promise<SentDocument> {
  const text = await readJsonText(call, context)
  const document = parsing(() => parseDocument(text))
  checkDocumentSize(document, context, id)
  return document
}

function write(call: Call, database: Database, id: DocumentId, document: SentDocument): Promise<Answer> {
  if (call.query('new_edits')?.toLowerCase() === 'false' && !isLocalId(id)) {
    return written(call, database, editOf(id, document, { replicated: true }))
  }
  return written(call, database, editOf(id, document, { parent: namedParent(call, document) }))
}

/** Writes one edit and tells its outcome. */
async function written(call: Call, database: Database, edit: DocumentEdit): Promise<Answer> {
  const { id, deleted } = edit
  const headers = deleted ? {} : { Location: call.location(database.name, ...locationSegments(id)) }
  if (call.query('batch') === 'ok') {
    database.writeLater([edit])
    return json({ ok: true, id }, { status: 202, headers })
  }
  const [outcome] = await database.write([edit])
  if (outcome?.outcome !== 'written') throw outcome?.error ?? new Error('A write has no outcome.')
  const { revision } = outcome
  return json(
    { ok: true, id, rev: revision },
    { status: deleted ? 200 : 201, headers: { ...headers, ETag: `"${revision}"` } },
  )
}

/** The slash after `_design` and `_local` is one of the path. */
function locationSegments(id: string): string[] {
  if (!isDesignId(id) && !isLocalId(id)) return [id]
  const slash = id.indexOf('/')
  return [id.slice(0, slash), id.slice(slash + 1)]
}

export function refuseLocalRoot(): never {
  throw badRequest('Invalid _local document id.')
}

export function refuseLocalAttachment(): never {
  throw badRequest('_local documents do not accept attachments.')
}
