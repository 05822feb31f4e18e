/**
 * `GET` of a document: the winner, a revision, or several of them; with stubs, with attachments in its JSON, or in
 * parts of their own.
 */
import type { Database } from '../../database/database.ts'
import type { DatabaseView } from '../../database/database-view.ts'
import type { OpenedDocument } from '../../database/reading/document-text.ts'
import {
  followsText,
  inlineText,
  stubPieces,
  stubText,
  wantedAttachments,
} from '../../database/reading/document-text.ts'
import {
  type FoundRevision,
  openDocument,
  openLatest,
  openRevision,
  type ReadOptions,
} from '../../database/reading/open-document.ts'
import { openKept } from '../../database/reading/open-kept.ts'
import { openRevisionPortions, type RevisionPortions } from '../../database/reading/revision-portions.ts'
import { isLocalId, parseRevision, type RevisionId } from '../../document/ids.ts'
import { badRequest } from '../../document/request-error.ts'
import {
  type MultipartSource,
  newBoundary,
  openRevisionsBody,
  type RevisionPart,
  relatedBody,
  relatedLength,
} from '../../multipart/multipart-writer.ts'
import { acceptsMultipart } from '../negotiation/acceptance.ts'
import { type Answer, enclosed, type Headers, notModified, redirect, streamed } from '../server/answer.ts'
import { databaseOf } from '../server/authentication.ts'
import type { Call } from '../server/call.ts'
import { documentIdOf, ESCAPED_DESIGN, isEscapedDesign } from '../server/route.ts'

export async function readDocument(call: Call): Promise<Answer> {
  const id = documentIdOf(call)
  if (isEscapedDesign(call)) return redirectToDesign(call)
  const database = await databaseOf(call)
  const contents = contentsWanted(call)
  const openRevs = call.query('open_revs')
  if (openRevs !== undefined && openRevs !== '[]' && !isLocalId(id)) {
    return readRevisions(call, database, id, openRevs, contents)
  }
  const options = readOptions(call, contents)
  if (contents) return readWithContents(call, database, id, options)
  const document = await readOne(call, database, id, options)
  const tag = tagOf(document, options)
  if (tag && call.hasTag(tag)) return notModified(tag)
  return stubAnswer(call, document, tag ? { ETag: tag } : {})
}

async function readOne(call: Call, database: Database, id: string, options: ReadOptions): Promise<OpenedDocument> {
  const { latest } = database
  if (latest && call.query('rev') === undefined) {
    const opened = await openLatest(latest, id, options)
    if (opened) return opened
  }
  const view = database.view()
  // Not `using`: its cost is measurable in the most frequent request.
  try {
    return await openOne(call, view, id, options)
  } finally {
    view.release()
  }
}

function openOne(call: Call, view: DatabaseView, id: string, options: ReadOptions): Promise<OpenedDocument> {
  const revision = call.queryRevision('rev')
  if (revision === undefined) return openDocument(view, id, options)
  return openRevision(view, id, revision, { ...options, latest: call.querySwitch('latest') })
}

async function readWithContents(call: Call, database: Database, id: string, options: ReadOptions): Promise<Answer> {
  const { opened: document, release } = await openKept(
    database,
    (view) => openOne(call, view, id, options),
    wantedAttachments,
  )
  const tag = tagOf(document, options)
  if (!tag || !call.hasTag(tag)) return contentsAnswer(call, database, document, tag ? { ETag: tag } : {}, release)
  release()
  return notModified(tag)
}

/** Undefined where the revision does not determine the whole reply. */
function tagOf({ revision }: OpenedDocument, options: ReadOptions): string | undefined {
  return hasTag(options) ? `"${revision}"` : undefined
}

/** A revision does not determine, for example, the conflicts beside it. */
function hasTag({ revisionsInfo, conflicts, deletedConflicts, localSequence }: ReadOptions): boolean {
  return !(revisionsInfo || conflicts || deletedConflicts || localSequence)
}

function readOptions(call: Call, contents: ContentsWanted | undefined): ReadOptions {
  if (!call.hasQuery) return NO_OPTIONS
  const meta = call.querySwitch('meta')
  return {
    revisions: call.querySwitch('revs'),
    revisionsInfo: meta || call.querySwitch('revs_info'),
    conflicts: meta || call.querySwitch('conflicts'),
    deletedConflicts: meta || call.querySwitch('deleted_conflicts'),
    localSequence: call.querySwitch('local_seq'),
    known: contents?.known,
  }
}

const NO_OPTIONS: ReadOptions = {}

async function readRevisions(
  call: Call,
  database: Database,
  id: string,
  openRevs: string,
  contents: ContentsWanted | undefined,
): Promise<Answer> {
  const wanted = openRevs === 'all' ? 'all' : revisionList(jsonParameter(openRevs), 'open_revs')
  const options = {
    revisions: call.querySwitch('revs'),
    latest: call.querySwitch('latest'),
    known: contents?.known,
  }
  const isMultipart = acceptsMultipart(call.header('accept'), 'mixed')
  const found = await openRevisionPortions(database, id, wanted, {
    ...options,
    contents: isMultipart || contents !== undefined,
  })
  const release = () => found[Symbol.dispose]()
  if (!isMultipart) return streamed(revisionTexts(call, database, found, contents !== undefined), { release })
  const boundary = newBoundary()
  return streamed(openRevisionsBody(revisionParts(database, id, found), boundary), {
    headers: { 'Content-Type': `multipart/mixed; boundary="${boundary}"` },
    release,
  })
}

async function* revisionParts(database: Database, id: string, found: RevisionPortions): AsyncGenerator<RevisionPart> {
  for await (const portion of found.portions()) {
    for (const each of portion) yield revisionPart(database, id, each)
  }
}

function revisionPart(database: Database, id: string, each: FoundRevision): RevisionPart {
  if (!each.found) return { kind: 'failure', json: JSON.stringify({ missing: each.revision }) }
  return { kind: 'document', id, rev: each.document.revision, source: multipartSource(database, each.document) }
}

async function* revisionTexts(
  call: Call,
  database: Database,
  found: RevisionPortions,
  hasContents: boolean,
): AsyncGenerator<string | Buffer> {
  const options = { encodingInfo: call.querySwitch('att_encoding_info') }
  let separator = '['
  for await (const portion of found.portions()) {
    for (const each of portion) {
      if (!each.found) yield `${separator}{"missing":${JSON.stringify(each.revision)}}`
      else if (hasContents) {
        yield `${separator}{"ok":`
        yield* inlineText(each.document, database.attachments, options).chunks()
        yield '}'
      } else yield enclosed(`${separator}{"ok":`, stubText(each.document, options), '}')
      separator = ','
    }
  }
  yield found.isEmpty ? '[]\n' : ']\n'
}

/** Which contents of attachments the client wants. */
export interface ContentsWanted {
  /** Revisions that the client has: contents up to these are not sent. */
  readonly known: readonly RevisionId[]
}

/** Undefined when stubs are enough. */
function contentsWanted(call: Call): ContentsWanted | undefined {
  const since = call.query('atts_since')
  if (since !== undefined) return { known: revisionList(jsonParameter(since), 'atts_since') }
  return call.querySwitch('attachments') ? { known: [] } : undefined
}

/** A JSON array of revisions. */
export function revisionList(value: unknown, name: string): RevisionId[] {
  if (!Array.isArray(value)) throw badRequest(`${name} must be a JSON array of revisions`)
  return value.map(parseRevision)
}

export function jsonParameter(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw badRequest('invalid_json')
  }
}

function stubAnswer(call: Call, document: OpenedDocument, headers: Headers): Answer {
  const options = { encodingInfo: call.querySwitch('att_encoding_info'), isLine: true }
  if (document.parts.body.length > LARGE_BODY_BYTES) return piecesAnswer(stubPieces(document, options), headers)
  return { kind: 'whole', status: 200, headers, body: stubText(document, options) }
}

/** Copying a larger body takes several milliseconds. */
const LARGE_BODY_BYTES = 4 * 1024 * 1024

function piecesAnswer(pieces: readonly Buffer[], headers: Headers): Answer {
  const length = pieces.reduce((sum, piece) => sum + piece.length, 0)
  async function* chunks() {
    yield* pieces
  }
  return streamed(chunks(), { headers: { ...headers, 'Content-Length': String(length) } })
}

/** `release` is called when the contents are sent. */
function contentsAnswer(
  call: Call,
  database: Database,
  document: OpenedDocument,
  headers: Headers,
  release: () => void,
): Answer {
  if (document.attachments.length > 0 && acceptsMultipart(call.header('accept'), 'related')) {
    return relatedAnswer(database, document, headers, release)
  }
  const { length, chunks } = inlineText(document, database.attachments, {
    encodingInfo: call.querySwitch('att_encoding_info'),
  })
  async function* lines() {
    yield* chunks()
    yield '\n'
  }
  return streamed(lines(), {
    headers: length === undefined ? headers : { ...headers, 'Content-Length': String(length + 1) },
    release,
  })
}

function relatedAnswer(database: Database, document: OpenedDocument, headers: Headers, release: () => void): Answer {
  const source = multipartSource(database, document)
  if (source.attachments.length === 0) {
    release()
    const type = { 'Content-Type': 'application/json' }
    return { kind: 'whole', status: 200, headers: { ...headers, ...type }, body: source.json }
  }
  const boundary = newBoundary()
  return streamed(relatedBody(source, boundary), {
    headers: {
      ...headers,
      'Content-Type': `multipart/related; boundary="${boundary}"`,
      'Content-Length': String(relatedLength(source, boundary)),
    },
    release,
  })
}

/** The document with the contents that the client does not have, as they are stored. */
export function multipartSource(database: Database, document: OpenedDocument): MultipartSource {
  return {
    json: followsText(document),
    attachments: wantedAttachments(document).map((attachment) => ({
      name: attachment.name,
      contentType: attachment.contentType,
      length: attachment.storedLength,
      encoding: attachment.encoding,
      content: () => database.attachments.read(attachment),
    })),
  }
}

/** Redirects to the path as the client sees it, which virtual hosts map again. */
export function redirectToDesign(call: Call): Answer {
  const target = call.requestedUrl.replace(/^https?:\/\/[^/?]*/i, '').replace(ESCAPED_DESIGN, '_design/')
  return redirect(301, call.origin + target)
}
