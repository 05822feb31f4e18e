/**
 * The id of a new revision: the MD5 of the same Erlang term that CouchDB hashes. The same edit made on both servers gives the
 * same id, so that replication between them makes no false conflict.
 */
import { createHash, hash } from 'node:crypto'
import { TermWriter } from '../../encoding/bytes/erlang-term.ts'
import { writeHexadecimal } from '../../encoding/bytes/short-bytes.ts'
import { termOf } from '../../encoding/json/json-text.ts'
import { formatRevision, generationOf, HASH_BYTES, hashOf, isHexadecimal, type RevisionId } from '../ids.ts'

/** Everything that the id depends on. The document's id and the time are not part of it. */
export interface RevisionContent {
  readonly deleted: boolean
  readonly term: BodyTerm
  /** In the order in which the document lists them. */
  readonly attachments: readonly AttachmentContent[]
  /** The id of the revision on one parent, where it was computed before. */
  readonly hashed?: HashedRevision | undefined
}

export interface HashedRevision {
  readonly parent: RevisionId | undefined
  readonly revision: RevisionId
}

/** The Erlang term of a body, from the scan of the document, or the revision that was hashed from it during the scan. */
export type BodyTerm = Uint8Array | HashedBody

/**
 * A body that was hashed when it was scanned, for the parent that its document names. The term, which is as large as the body,
 * need not be kept. If the parent turns out to be another one, the term is made again.
 */
export class HashedBody {
  readonly body: Buffer
  readonly parent: RevisionId | undefined
  readonly deleted: boolean
  /** Undefined where it was not hashed: a replicated document has its revision already. */
  readonly revision: RevisionId | undefined

  constructor(body: Buffer, { parent, deleted, revision }: Omit<HashedBody, 'body'>) {
    this.body = body
    this.parent = parent
    this.deleted = deleted
    this.revision = revision
  }
}

/** The revision that a body without attachments would make. */
export function hashedBody(
  body: Buffer,
  scanned: ScannedTerm,
  { parent, deleted }: Pick<HashedBody, 'parent' | 'deleted'>,
): HashedBody {
  beginTerm(parent, deleted)
  const whole = scanned.between(term.bytes, term.length, END_WITHOUT_ATTACHMENTS)
  const revision = formatRevision(generationAfter(parent), hash('md5', whole, 'hex'))
  return new HashedBody(body, { parent, deleted, revision })
}

/** A body that is hashed only if it turns out to be needed. */
export function unhashedBody(body: Buffer): HashedBody {
  return new HashedBody(body, { parent: undefined, deleted: false, revision: undefined })
}

/** The term of a body in the buffer of the scan. */
export interface ScannedTerm {
  between(before: Uint8Array, beforeBytes: number, after: Uint8Array): Uint8Array
}

/** An empty list, and the end of the outer list. */
const END_WITHOUT_ATTACHMENTS = Buffer.of(106, 106)

export interface AttachmentContent {
  readonly name: string
  readonly contentType: string
  /** 16 bytes, of the content as uploaded. */
  readonly md5: Uint8Array
}

export function newRevision(parent: RevisionId | undefined, content: RevisionContent): RevisionId {
  if (content.hashed && content.hashed.parent === parent) return content.hashed.revision
  const known = content.term instanceof HashedBody ? knownHash(content.term, parent, content) : undefined
  if (known !== undefined) return known
  const bytes = termBytes(content.term)
  const list = beginTerm(parent, content.deleted)
  term.append(bytes, 0, bytes.length)
  endTerm(list, content)
  return formatRevision(generationAfter(parent), hash('md5', term.bytes.subarray(0, term.length), 'hex'))
}

function knownHash(
  { parent: hashedFor, deleted, revision }: HashedBody,
  parent: RevisionId | undefined,
  content: RevisionContent,
): RevisionId | undefined {
  const isSame = hashedFor === parent && deleted === content.deleted && content.attachments.length === 0
  return isSame ? revision : undefined
}

function termBytes(bodyTerm: BodyTerm): Uint8Array {
  return bodyTerm instanceof HashedBody ? termOf(bodyTerm.body) : bodyTerm
}

/** The same for a large body, with pauses so that the event loop is not blocked. */
export async function hashRevision(
  parent: RevisionId | undefined,
  content: RevisionContent,
  pause: () => Promise<void>,
): Promise<HashedRevision> {
  const bytes = termBytes(content.term)
  const list = beginTerm(parent, content.deleted)
  const bodyAt = term.length
  endTerm(list, content)
  const around = Buffer.from(term.bytes.subarray(0, term.length))
  const digest = createHash('md5').update(around.subarray(0, bodyAt))
  for (let at = 0; at < bytes.length; at += PORTION_BYTES) {
    digest.update(bytes.subarray(at, at + PORTION_BYTES))
    await pause()
  }
  digest.update(around.subarray(bodyAt))
  return { parent, revision: formatRevision(generationAfter(parent), digest.digest('hex')) }
}

const PORTION_BYTES = 1024 * 1024

/** Whether it is deleted, generation and hash of its parent, body, attachments. */
const TERM_MEMBERS = 5

/** Writes the part before the body, including the length of the list, which is always 5. */
function beginTerm(parent: RevisionId | undefined, deleted: boolean): number {
  term.clear()
  term.version()
  const list = term.openList()
  term.boolean(deleted)
  term.integer(generationAfter(parent) - 1)
  if (parent === undefined) term.integer(0)
  else writeHash(hashOf(parent))
  term.countList(list, TERM_MEMBERS)
  return list
}

function endTerm(list: number, { attachments }: RevisionContent): void {
  writeAttachments(attachments)
  term.closeList(list, TERM_MEMBERS)
}

function generationAfter(parent: RevisionId | undefined): number {
  return parent === undefined ? 1 : generationOf(parent) + 1
}

/** The term of an empty body, for the tombstone of a plain DELETE. */
export const EMPTY_BODY_TERM: Uint8Array = Buffer.from([0x68, 0x01, 0x6a])

const term = new TermWriter(16 * 1024)
const parentHash = Buffer.alloc(HASH_BYTES)

function writeHash(hash: string): void {
  if (!isHexadecimal(hash)) term.text(hash)
  else {
    writeHexadecimal(parentHash, 0, hash, 0)
    term.binary(parentHash)
  }
}

/** In reverse order, as current releases of CouchDB hash them. */
function writeAttachments(attachments: readonly AttachmentContent[]): void {
  const list = term.openList()
  for (let i = attachments.length - 1; i >= 0; i--) {
    const { name, contentType, md5 } = attachments[i]!
    term.tuple(3)
    term.text(name)
    term.text(contentType)
    term.binary(md5)
  }
  term.closeList(list, attachments.length)
}
