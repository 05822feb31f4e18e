/** Attachments by their own addresses: read, in parts too, written and deleted. */

import { checkedContentType, DEFAULT_CONTENT_TYPE } from '../../database/attachments/attachment-edits.ts'
import type { AttachmentStore } from '../../database/attachments/attachment-store.ts'
import type { Database } from '../../database/database.ts'
import { type AttachmentRecord, camePacked } from '../../database/layout/stored-body.ts'
import { unpacked, unpackedLength } from '../../database/reading/document-text.ts'
import { openDocument, openRevision } from '../../database/reading/open-document.ts'
import type { EditedAttachment, NewRevisionEdit } from '../../database/writing/edit.ts'
import { checkedAttachmentName, type SentDocument } from '../../document/document-fields.ts'
import { parseDocumentId, parseRevision, type RevisionId } from '../../document/ids.ts'
import { conflict, notFound, type RequestError } from '../../document/request-error.ts'
import { scanDocument } from '../../encoding/json/json-text.ts'
import { type ByteRange, byteRangesBody, newBoundary } from '../../multipart/multipart-writer.ts'
import { redirectToDesign } from '../documents/document-reading.ts'
import { keptAttachments, namedParent, writeAnswer } from '../documents/document-writing.ts'
import { acceptedCodings } from '../negotiation/acceptance.ts'
import { contentPolicy, NO_SNIFFING } from '../negotiation/browser-policy.ts'
import { type Answer, type Headers, notModified, streamed } from '../server/answer.ts'
import { databaseOf } from '../server/authentication.ts'
import type { Call } from '../server/call.ts'
import type { HttpContext } from '../server/context.ts'
import { HttpError } from '../server/errors.ts'
import { attachmentPathOf, documentSegments, isEscapedDesign } from '../server/route.ts'
import { stageBody } from './attachment-upload.ts'

export async function readAttachment(call: Call, context: HttpContext): Promise<Answer> {
  if (isEscapedDesign(call)) return redirectToDesign(call)
  const { id, name } = attachmentPathOf(call)
  const database = await databaseOf(call)
  using view = database.view()
  const revision = revisionToRead(call)
  const document = await (revision === undefined ? openDocument(view, id) : openRevision(view, id, revision))
  view.release()
  const attachment = document.attachments.find((each) => each.name === name)
  if (!attachment) throw missingAttachment()
  const tag = tagOf(attachment)
  return call.hasTag(tag) ? notModified(tag) : attachmentAnswer(call, context, database, attachment)
}

function tagOf({ md5 }: AttachmentRecord): string {
  return `"${md5}"`
}

/** Below a design document are its functions, by names that begin with an underscore, and its attachments. */
export function ofDesign(handler: (call: Call, context: HttpContext) => Promise<Answer>) {
  return async (call: Call, context: HttpContext): Promise<Answer> => {
    const name = call.segment(3)
    if (name.startsWith('_')) throw notFound(`missing handler: ${name}`)
    return handler(call, context)
  }
}

export async function putAttachment(call: Call, context: HttpContext): Promise<Answer> {
  const path = attachmentPathOf(call)
  const id = parseDocumentId(path.id)
  const name = checkedAttachmentName(path.name)
  const database = await databaseOf(call)
  database.checkTarget(id, 'attachment')
  const parent = namedParent(call, undefined)
  // A conflict that is visible now is reported before the upload; the writer checks again.
  await baseOf(call, database, id, parent)
  const contentType = checkedContentType(name, call.header('content-type') ?? DEFAULT_CONTENT_TYPE)
  const staged = await stageBody(call, context, database, { name, contentType })
  try {
    const base = await baseOf(call, database, id, parent)
    const added = { ...staged.content, name, contentType, revpos: undefined, puts: staged.puts }
    const others = base.attachments.filter((each) => each.name !== name)
    return await writeRevision(call, database, { id, parent, base, others, added: [added], created: { name } })
  } finally {
    staged.release()
  }
}

export async function deleteAttachment(call: Call): Promise<Answer> {
  const { id, name } = attachmentPathOf(call)
  const database = await databaseOf(call)
  const parent = namedParent(call, undefined)
  using view = database.view()
  // A user who may not read a document does not learn that it exists.
  if (view.reading) await openDocument(view, id)
  else if (!(await view.record(id))) throw notFound('missing')
  view.release()
  const base = await baseOf(call, database, id, parent)
  if (!base.refusal && !base.attachments.some((each) => each.name === name)) throw missingAttachment()
  const others = base.attachments.filter((each) => each.name !== name)
  return await writeRevision(call, database, { id, parent, base, others, added: [], created: 'nothing' })
}

/** The parent of a new revision. */
interface Base {
  readonly body: Buffer
  readonly attachments: readonly AttachmentRecord[]
  /** Set if there is no valid parent, and the client does not wait for the outcome. */
  readonly refusal?: RequestError
}

const NOTHING: Base = { body: Buffer.from('{}'), attachments: [] }

/** As `currentBase`. With `batch=ok` the writer finds and logs conflicts, as for documents. */
async function baseOf(call: Call, database: Database, id: string, parent: RevisionId | undefined): Promise<Base> {
  const base = await currentBase(database, id, parent)
  if (base.refusal && call.query('batch') !== 'ok') throw base.refusal
  return base
}

/** The named revision; undefined if the document is new or recreated, or if that is a conflict. */
async function currentBase(database: Database, id: string, parent: RevisionId | undefined): Promise<Base> {
  using view = database.view()
  const record = await view.record(id)
  if (parent === undefined) {
    return record && !record.deleted ? { ...NOTHING, refusal: conflict() } : NOTHING
  }
  const tree = record && (await view.tree(id, record))
  if (!tree?.isLeaf(parent)) return { ...NOTHING, refusal: conflict() }
  const { parts, attachments } = await openRevision(view, id, parent)
  return { body: parts.body, attachments }
}

/** New attachments on a document that is named or sent with them; they replace those of the same names. */
export async function writeWithAttachments(
  call: Call,
  database: Database,
  upload: {
    readonly id: string
    readonly parent: RevisionId | undefined
    readonly document: SentDocument | undefined
    readonly added: readonly EditedAttachment[]
  },
): Promise<Answer> {
  const { id, parent, document, added } = upload
  const base = await baseOf(call, database, id, parent)
  const names = new Set(added.map(({ name }) => name))
  const others = base.attachments.filter(({ name }) => !names.has(name))
  const body = document?.body ?? base.body
  return writeRevision(call, database, { id, parent, base: { ...base, body }, others, added, created: 'document' })
}

interface RevisionPlan {
  readonly id: string
  readonly parent: RevisionId | undefined
  readonly base: Base
  readonly others: readonly AttachmentRecord[]
  /** Go first. */
  readonly added: readonly EditedAttachment[]
  /** What was created: the document, an attachment of that name, or nothing. */
  readonly created: 'document' | 'nothing' | { readonly name: string }
}

async function writeRevision(call: Call, database: Database, plan: RevisionPlan): Promise<Answer> {
  const { id, parent, base, others, added, created } = plan
  const kept = await keptAttachments(database, id, others)
  try {
    const { body, term } = scanDocument(base.body)
    const attachments = [...added, ...kept.attachments]
    const { refusal } = base
    const edit: NewRevisionEdit = { kind: 'interactive', id, parent, deleted: false, body, term, attachments, refusal }
    return await writeAnswer(call, database, edit, addressOf(id, created))
  } finally {
    kept.release()
  }
}

function addressOf(id: string, created: RevisionPlan['created']): string[] | null {
  if (created === 'nothing') return null
  const document = documentSegments(id)
  return created === 'document' ? document : [...document, ...created.name.split('/')]
}

function attachmentAnswer(
  call: Call,
  { settings }: HttpContext,
  database: Database,
  attachment: AttachmentRecord,
): Answer {
  const store = database.attachments
  const common = {
    ETag: tagOf(attachment),
    'Content-Type': attachment.contentType,
    ...NO_SNIFFING,
    ...contentPolicy(settings.current, 'attachments'),
  }
  const codings = acceptedCodings(call.header('accept-encoding'))
  const length = unpackedLength(attachment)
  const ranges = codings.identity && length !== undefined ? parseRanges(call.header('range'), length) : undefined
  if (ranges && length !== undefined) return rangesAnswer(database, attachment, length, ranges, common)
  if (attachment.encoding && codings.gzip) {
    const headers = {
      ...common,
      'Accept-Ranges': 'none',
      'Content-Encoding': attachment.encoding,
      'Content-Length': String(attachment.storedLength),
      // The digest is that of the content as it was sent, like the tag, and not of these bytes.
      'Content-MD5': attachment.md5,
    }
    return streamed(store.read(attachment), { headers, ownsChunks: store.givesCopies })
  }
  const headers = {
    ...common,
    'Accept-Ranges': length === undefined ? 'none' : 'bytes',
    ...unpackedHeaders(attachment),
  }
  return streamed(unpacked(store, attachment), { headers, ownsChunks: ownsPieces(store, attachment) })
}

/**
 * Content that was sent compressed has no digest of what it decompresses to, nor a length, unless the sender gave one.
 */
function unpackedHeaders(attachment: AttachmentRecord): Headers {
  const { length, storedLength, md5 } = attachment
  if (!camePacked(attachment)) return { 'Content-Length': String(length), 'Content-MD5': md5 }
  return length === storedLength ? {} : { 'Content-Length': String(length) }
}

function rangesAnswer(
  database: Database,
  attachment: AttachmentRecord,
  length: number,
  ranges: readonly ByteRange[],
  common: { ETag: string; 'Content-Type': string },
): Answer {
  const content = (range: ByteRange) => rangeOf(database, attachment, range)
  const ownsChunks = ownsPieces(database.attachments, attachment)
  const [first, ...more] = ranges
  if (first && more.length === 0) {
    const headers = {
      ...common,
      'Accept-Ranges': 'bytes',
      'Content-Range': `bytes ${first.first}-${first.last}/${length}`,
      'Content-Length': String(first.last - first.first + 1),
    }
    return streamed(content(first), { status: 206, headers, ownsChunks })
  }
  const boundary = newBoundary()
  const source = { contentType: attachment.contentType, length, content }
  return streamed(byteRangesBody(source, ranges, boundary), {
    status: 206,
    ownsChunks,
    headers: { ...common, 'Accept-Ranges': 'bytes', 'Content-Type': `multipart/byteranges; boundary="${boundary}"` },
  })
}

/** Whether the pieces of the content are read for this reply alone. Those that were decompressed are left to zlib. */
function ownsPieces(store: AttachmentStore, { encoding }: AttachmentRecord): boolean {
  return !encoding && store.givesCopies
}

/** A range of the content. In compressed content everything before it must be decompressed too. */
async function* rangeOf(database: Database, attachment: AttachmentRecord, range: ByteRange): AsyncGenerator<Buffer> {
  const { first, last } = range
  if (!attachment.encoding) {
    yield* database.attachments.read(attachment, first, last + 1)
    return
  }
  let at = 0
  for await (const piece of unpacked(database.attachments, attachment)) {
    const slice = piece.subarray(Math.max(0, first - at), Math.max(0, last + 1 - at))
    if (slice.length > 0) yield slice
    at += piece.length
    if (at > last) return
  }
}

function missingAttachment(): Error {
  return notFound('Document is missing attachment')
}

const RANGES_LIMIT = 9

/** The ranges; undefined if the whole content is to be sent: no range, an invalid one, or too many. */
export function parseRanges(header: string | undefined, length: number): ByteRange[] | undefined {
  const [, list] = /^bytes=(.*)$/.exec(header ?? '') ?? []
  const specs = list?.split(',').map((spec) => spec.trim())
  if (!specs?.every((spec) => /^(\d+-\d*|-\d+)$/.test(spec))) return undefined
  if (specs.includes('0-') || specs.length > RANGES_LIMIT) return undefined
  return specs.map((spec) => parseRange(spec, length))
}

function parseRange(spec: string, length: number): ByteRange {
  const [first = '', last = ''] = spec.split('-')
  const range =
    first === ''
      ? { first: Math.max(0, length - Number(last)), last: length - 1 }
      : { first: Number(first), last: last === '' ? length - 1 : Math.min(Number(last), length - 1) }
  if (range.last < range.first) {
    throw new HttpError(416, 'requested_range_not_satisfiable', 'Requested range not satisfiable')
  }
  return range
}

/** The revision of the query, or else of `If-Match`, where that names a revision and not the digest of a content. */
function revisionToRead(call: Call): RevisionId | undefined {
  const { matchedTag: tag } = call
  return call.queryRevision('rev') ?? (tag !== undefined && /^\d+-/.test(tag) ? parseRevision(tag) : undefined)
}
