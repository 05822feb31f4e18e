/**
 * A document as a client sent it: its body untouched, and what its underscore members say. What cannot be meant is
 * refused here, so that nothing wrong gets further inside.
 */
import { decodeBase64 } from '../encoding/json/base64-text.ts'
import {
  JsonReader,
  LongDocumentError,
  type ScannedDocument,
  type SpecialMember,
  type UseOfTerm,
} from '../encoding/json/json-text.ts'
import { isObject } from '../encoding/json/json-value.ts'
import { endOfValue } from '../encoding/json/minified-text.ts'
import { attachmentMembers } from './attachment-text.ts'
import {
  type DocumentId,
  fitsHeader,
  formatRevision,
  generationOf,
  hashOf,
  isLocalId,
  isUsualRevision,
  MAX_GENERATION,
  normalHash,
  parseDocumentId,
  parseRevision,
  type RevisionId,
  type RevisionPath,
} from './ids.ts'
import { badRequest, docValidation, tooLarge, tooManyItems } from './request-error.ts'
import { type BodyTerm, type HashedBody, hashedBody, unhashedBody } from './revisions/new-revision.ts'
import { readUsualRevisions } from './revisions-text.ts'

export interface DocumentFields {
  readonly id: DocumentId | undefined
  /** From `_revisions`, or else `_rev`: the parent of an edit, or the edit itself when replicated. */
  readonly revision: RevisionId | undefined
  /** From `_revisions`. */
  readonly history: RevisionPath | undefined
  readonly deleted: boolean
  /** In the order of the document, which enters the revision id. */
  readonly attachments: readonly AttachmentField[]
}

/** What a document says of one attachment: contents inline, to follow, or those of the parent. */
export interface AttachmentField {
  readonly name: string
  /** The text of a JSON object. */
  readonly text: Buffer
  /** The content that is inline, where it was decoded already. */
  readonly data?: Buffer | undefined
}

export interface SentDocument extends DocumentFields {
  /** The text to be stored. */
  readonly body: Buffer
  /** For the revision id. */
  readonly term: BodyTerm
}

/** Reads the next value as a document. One whose body is larger is refused before all of it is there in several forms. */
export function readDocument(reader: JsonReader, largestBytes?: number): SentDocument {
  return understood(scanObject(reader, largestBytes))
}

/**
 * Reads a text that is one document. The whole of it is checked before anything is said about its meaning. An id that is
 * known from elsewhere wins over the one in the text.
 */
export function parseDocument(text: Buffer, id?: DocumentId, largestBytes?: number): SentDocument {
  const reader = new JsonReader(text)
  const scanned = scanObject(reader, largestBytes)
  reader.end()
  return understood(scanned, id)
}

/** What the underscore members of a document say. */
function readFields(
  { body, term, specials }: ScannedDocument<BodyTerm>,
  idOfPath: DocumentId | undefined,
): SentDocument {
  let id: DocumentId | undefined
  let revision: RevisionId | undefined
  let history: RevisionPath | undefined
  let deleted = false
  let attachments = NO_ATTACHMENTS
  for (const { name, value } of specials) {
    switch (name) {
      case '_id':
        id = parseDocumentId(parsed(value))
        break
      case '_rev':
        if (history === undefined) revision = parseRevision(parsed(value))
        break
      case '_revisions':
        // A local document has none: what a client got with one and sends back says nothing.
        if (!isLocalId(idOfPath ?? id ?? idIn(specials))) history = readRevisions(value)
        break
      case '_deleted':
        deleted = readDeleted(parsed(value))
        break
      case '_attachments':
        attachments = readAttachments(value)
        break
      case '_revs_info':
      case '_local_seq':
      case '_conflicts':
      case '_deleted_conflicts':
        // A document that was read with these may be written back.
        break
      default:
        throw badMember(name)
    }
  }
  if (history) revision = formatRevision(history.start, history.hashes[0]!)
  return { id, revision, history, deleted, attachments, body, term }
}

/** The path that a replicated document must bring along. */
export function replicatedPath(fields: DocumentFields): RevisionPath {
  const { revision, history } = fields
  if (revision === undefined) {
    throw badRequest('When `new_edits: false`, the document needs `_rev` or `_revisions` specified')
  }
  const path = history ?? { start: generationOf(revision), hashes: [hashOf(revision)] }
  if (path.start === 0 || !path.hashes.every(fitsHeader)) throw badRequest('Invalid rev format')
  return path
}

/** Undefined when the next value is something else, which is read over. */
function scanObject(reader: JsonReader, largestBytes?: number): ScannedDocument<BodyTerm> | undefined {
  if (reader.kind() === 'object') return documentOf(reader, largestBytes)
  reader.skip()
  return undefined
}

function documentOf(reader: JsonReader, largestBytes: number | undefined): ScannedDocument<BodyTerm> {
  if (largestBytes === undefined) return reader.documentWith(hashedOrCopied)
  try {
    return reader.documentWith(hashedOrCopied, { largestBytes })
  } catch (error) {
    throw error instanceof LongDocumentError ? tooLarge() : error
  }
}

/**
 * Up to here a body is hashed at once, where its term lies: it need not be copied then. Where the parent is another one
 * the term is made again, which must not take long.
 */
const LARGEST_HASHED_BYTES = 128 * 1024

const hashedOrCopied: UseOfTerm<BodyTerm> = (body, specials, term) => {
  if (term.sizeBytes > LARGEST_HASHED_BYTES) return term.copy()
  if (specials.some(({ name }) => name === '_revisions')) return unhashedBody(body)
  const named = namedRevision(specials)
  return named ? hashedBody(body, term, named) : term.copy()
}

/** What a plain edit says of its revision; undefined where there is more to it, or where it is to be refused. */
function namedRevision(specials: readonly SpecialMember[]): Pick<HashedBody, 'parent' | 'deleted'> | undefined {
  let parent: RevisionId | undefined
  let deleted = false
  for (const { name, value } of specials) {
    if (name === '_rev' && isUsualRevision(value)) parent = value
    else if (name === '_deleted' && typeof value !== 'string') deleted = value.toString() === 'true'
    else if (name !== '_id') return undefined
  }
  return { parent, deleted }
}

function understood(scanned: ScannedDocument<BodyTerm> | undefined, id?: DocumentId): SentDocument {
  if (scanned === undefined) throw badRequest('Document must be a JSON object')
  return readFields(scanned, id)
}

function idIn(specials: readonly SpecialMember[]): string {
  const special = specials.find(({ name }) => name === '_id')
  const id = special && parsed(special.value)
  return typeof id === 'string' ? id : ''
}

const NO_ATTACHMENTS: readonly AttachmentField[] = []

/** Revisions that a document names: a hundred times what a database keeps, unless it is told otherwise. */
const MOST_REVISIONS = 100_000
const COMMA = 0x2c

/** Refuses a list that is too long before it is parsed: that would take minutes where it is millions. */
function withFewItems(value: string | Buffer): string | Buffer {
  if (typeof value === 'string' || value.length <= MOST_REVISIONS) return value
  let items = 0
  for (let at = value.indexOf(COMMA); at >= 0; at = value.indexOf(COMMA, at + 1)) {
    if (++items > MOST_REVISIONS) throw tooManyItems(MOST_REVISIONS)
  }
  return value
}

function readRevisions(text: string | Buffer): RevisionPath | undefined {
  const few = withFewItems(text)
  const usual = typeof few === 'string' ? undefined : readUsualRevisions(few)
  return usual ?? parsedRevisions(parsed(few))
}

function parsedRevisions(value: unknown): RevisionPath | undefined {
  if (!isObject(value)) throw badMember('_revisions')
  const { start, ids } = value
  if (typeof start !== 'number' || !Number.isInteger(start) || start > MAX_GENERATION) {
    throw docValidation("_revisions.start isn't an integer.")
  }
  if (!Array.isArray(ids)) throw docValidation("_revisions.ids isn't a array.")
  const hashes = ids.map(readHash)
  if (hashes.length === 0) return undefined
  if (start < hashes.length) throw docValidation('_revisions.start is less than the number of _revisions.ids.')
  return { start, hashes }
}

function readHash(value: unknown): string {
  if (typeof value !== 'string') throw docValidation("RevId isn't a string")
  const hash = normalHash(value)
  if (hash === undefined) throw docValidation("RevId isn't a valid hexadecimal")
  return hash
}

function readDeleted(value: unknown): boolean {
  if (typeof value !== 'boolean') throw badMember('_deleted')
  return value
}

/** Of one document. A body of nothing but tiny ones would take minutes, and gigabytes. */
const MOST_ATTACHMENTS = 10_000
const OPEN_BRACE = 0x7b
const CLOSE_BRACE = 0x7d

/** The scan has checked and minified the text: contents in it are passed over, and not copied. */
function readAttachments(text: string | Buffer): AttachmentField[] {
  if (typeof text === 'string' || text[0] !== OPEN_BRACE) throw badMember('_attachments')
  const attachments = new Map<string, AttachmentField>()
  for (let at = 1; text[at] !== CLOSE_BRACE; ) {
    const nameEnd = endOfValue(text, at)
    const name: string = JSON.parse(text.toString('utf8', at, nameEnd))
    const start = nameEnd + 1
    if (text[start] !== OPEN_BRACE) throw badMember('_attachments')
    if (attachments.has(name)) throw badRequest('Duplicate attachments')
    if (attachments.size === MOST_ATTACHMENTS) throw tooManyItems(MOST_ATTACHMENTS)
    const end = endOfValue(text, start)
    attachments.set(checkedAttachmentName(name), { name, text: text.subarray(start, end) })
    at = text[end] === COMMA ? end + 1 : end
  }
  return [...attachments.values()]
}

/** The same attachments with contents decoded: their texts are short then. */
export function decodedAttachments(fields: readonly AttachmentField[]): AttachmentField[] {
  return fields.map((field) => {
    const { members, data: decoded } = attachmentMembers(field.text)
    const data = decoded ?? (typeof members.data === 'string' ? decodeBase64(members.data) : undefined)
    // What cannot be decoded is for whoever understands the other members to refuse, however short it is.
    if (typeof members.data === 'string') members.data = data ? '' : INVALID_BASE64
    return { name: field.name, text: Buffer.from(JSON.stringify(members)), data }
  })
}

const INVALID_BASE64 = '='

/** Checks the name of an attachment that is to be written. */
export function checkedAttachmentName(name: string): string {
  if (name === '') throw badRequest('Attachment name must not be empty')
  if (name.startsWith('_')) throw badRequest("Attachment name can't start with '_'")
  if (!name.isWellFormed()) throw badRequest('Attachment name is not UTF-8 encoded')
  return name
}

function badMember(name: string): Error {
  return docValidation(`Bad special document member: ${name}`)
}

function parsed(value: string | Buffer): unknown {
  return typeof value === 'string' ? value : JSON.parse(value.toString('utf8'))
}
