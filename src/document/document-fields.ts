/**
 * A document as a client sent it: its body unchanged, and its parsed underscore members. Invalid ones are refused here, so that
 * the layers above need not check them again.
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
  /** From `_revisions`, or else `_rev`: the parent of an edit, or the revision itself when replicated. */
  readonly revision: RevisionId | undefined
  /** From `_revisions`. */
  readonly history: RevisionPath | undefined
  readonly deleted: boolean
  /** In the order of the document, which the revision id depends on. */
  readonly attachments: readonly AttachmentField[]
}

/** What a document says about one attachment: inline, following in a separate part, or a stub of the parent's. */
export interface AttachmentField {
  readonly name: string
  /** The text of a JSON object. */
  readonly text: Buffer
  /** The inline content, where it is decoded already. */
  readonly data?: Buffer | undefined
}

export interface SentDocument extends DocumentFields {
  /** The text to be stored. */
  readonly body: Buffer
  /** For the revision id. */
  readonly term: BodyTerm
}

/** Reads the next value as a document. A larger body is refused before memory is used for several forms of it. */
export function readDocument(reader: JsonReader, largestBytes?: number): SentDocument {
  return understood(scanObject(reader, largestBytes))
}

/**
 * Reads a text that is one document. JSON errors are reported before errors in its members. A given `id` takes precedence over
 * the one in the text.
 */
export function parseDocument(text: Buffer, id?: DocumentId, largestBytes?: number): SentDocument {
  const reader = new JsonReader(text)
  const scanned = scanObject(reader, largestBytes)
  reader.end()
  return understood(scanned, id)
}

/** Parses the underscore members of a document. */
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
        // A local document has no history; one that a client sends back is ignored.
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
        // Allowed, so that a document read with these members can be written back.
        break
      default:
        throw badMember(name)
    }
  }
  if (history) revision = formatRevision(history.start, history.hashes[0]!)
  return { id, revision, history, deleted, attachments, body, term }
}

/** The revision path that a replicated document must have. */
export function replicatedPath(fields: DocumentFields): RevisionPath {
  const { revision, history } = fields
  if (revision === undefined) {
    throw badRequest('When `new_edits: false`, the document needs `_rev` or `_revisions` specified')
  }
  const path = history ?? { start: generationOf(revision), hashes: [hashOf(revision)] }
  if (path.start === 0 || !path.hashes.every(fitsHeader)) throw badRequest('Invalid rev format')
  return path
}

/** Undefined when the next value is not an object; it is skipped. */
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
 * A body up to this size is hashed at once, so that its term need not be copied. If the parent turns out to be another one, the
 * term is made again, which must not take long.
 */
const LARGEST_HASHED_BYTES = 128 * 1024

const hashedOrCopied: UseOfTerm<BodyTerm> = (body, specials, term) => {
  if (term.sizeBytes > LARGEST_HASHED_BYTES) return term.copy()
  if (specials.some(({ name }) => name === '_revisions')) return unhashedBody(body)
  const named = namedRevision(specials)
  return named ? hashedBody(body, term, named) : term.copy()
}

/** Parent and deletion of a plain edit; undefined where there are other members, or they are not valid. */
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

/** Limit on the revisions in `_revisions`: a hundred times the default revision limit. */
const MOST_REVISIONS = 100_000
const COMMA = 0x2c

/** Refuses a list that is too long before it is parsed: millions of items would take minutes. */
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

/** Of one document. A body full of tiny ones would take minutes, and gigabytes of memory. */
const MOST_ATTACHMENTS = 10_000
const OPEN_BRACE = 0x7b
const CLOSE_BRACE = 0x7d

/** The scan has checked and minified the text: inline contents are skipped, not copied. */
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

/** The same attachments with decoded contents. */
export function decodedAttachments(fields: readonly AttachmentField[]): AttachmentField[] {
  return fields.map((field) => {
    const { members, data: decoded } = attachmentMembers(field.text)
    const data = decoded ?? (typeof members.data === 'string' ? decodeBase64(members.data) : undefined)
    // Invalid Base64 is marked here and refused later, with the other members.
    if (typeof members.data === 'string') members.data = data ? '' : INVALID_BASE64
    return { name: field.name, text: Buffer.from(JSON.stringify(members)), data }
  })
}

const INVALID_BASE64 = '='

/** Checks the name of an attachment before it is written. */
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
