/**
 * Ids of documents, which are any text but the empty one, and of revisions, `N-hash`: a generation and a hash that is unique
 * within it. A hash made by a server is 32 lower-case hexadecimal digits; one made by a client may be any other text. Document
 * ids that begin with an underscore are reserved.
 */
import { badRequest, illegalDocumentId } from './request-error.ts'

declare const brand: unique symbol
export type DocumentId = string & { readonly [brand]: 'DocumentId' }

/** Checks the id of a document before it is written. A lookup needs no check: an invalid id is not found. */
export function parseDocumentId(value: unknown): DocumentId {
  if (value === '') throw illegalDocumentId('Document id must not be empty')
  if (typeof value !== 'string') throw illegalDocumentId('Document id must be a string')
  if (!value.isWellFormed()) throw illegalDocumentId('Document id must be valid UTF-8')
  if (value === '_design/' || value === '_local/') throw illegalDocumentId(`Illegal document id \`${value}\``)
  if (value.startsWith('_') && !value.startsWith('_design/') && !value.startsWith('_local/')) {
    throw illegalDocumentId('Only reserved document ids may start with underscore.')
  }
  return value as DocumentId
}

export function isDesignId(id: string): boolean {
  return id.startsWith('_design/')
}

/** The range of design document ids: `first` inclusive, `last` exclusive. */
export const DESIGN_IDS = { first: '_design/', last: '_design0' } as const

export function isLocalId(id: string): boolean {
  return id.startsWith('_local/')
}

export type RevisionId = string & { readonly [brand]: 'RevisionId' }

/** A revision and its known ancestors: hashes newest first, the first of generation `start`. */
export interface RevisionPath {
  readonly start: number
  readonly hashes: readonly string[]
}

/** More than any document reaches, and a safe integer. */
export const MAX_GENERATION = 999_999_999_999_999

/** Reads a revision from a request. Throws the client's error for anything else. */
export function parseRevision(value: unknown): RevisionId {
  const revision = readRevision(value)
  if (revision === undefined) throw badRequest('Invalid rev format')
  return revision
}

/** Undefined where the value is not a revision. */
export function readRevision(value: unknown): RevisionId | undefined {
  if (isUsualRevision(value)) return value
  const parts = typeof value === 'string' ? /^([0-9]{1,15})-(.*)$/s.exec(value) : null
  const hash = normalHash(parts?.[2])
  return parts === null || hash === undefined ? undefined : formatRevision(Number(parts[1]), hash)
}

/** Whether it has the form that servers write: a fast check, without parsing and formatting it again. */
export function isUsualRevision(value: unknown): value is RevisionId {
  if (typeof value !== 'string') return false
  const dash = value.length - HASH_LENGTH - 1
  if (dash < 1 || dash > GENERATION_LENGTH || value[dash] !== '-' || value[0] === '0') return false
  for (let i = 0; i < value.length; i++) {
    const code = value.charCodeAt(i)
    const isDigit = code >= DIGIT_ZERO && code <= DIGIT_NINE
    if (!isDigit && i !== dash && (i < dash || code < LETTER_A || code > LETTER_F)) return false
  }
  return true
}

/** The hash as it is stored and compared; undefined where its 32 characters are not hexadecimal, or it is not valid UTF-8. */
export function normalHash(hash: string | undefined): string | undefined {
  if (hash?.length !== HASH_LENGTH) return hash?.isWellFormed() ? hash : undefined
  return /^[0-9a-fA-F]{32}$/.test(hash) ? hash.toLowerCase() : undefined
}

/** Whether a hash can be sent in a header: a revision is the ETag of its document. */
export function fitsHeader(hash: string): boolean {
  return isHexadecimal(hash) || (hash.length <= LONGEST_HASH && PRINTABLE.test(hash))
}

const LONGEST_HASH = 1000
const PRINTABLE = /^[\x20-\x7e]*$/

export function formatRevision(generation: number, hash: string): RevisionId {
  return `${generation}-${hash}` as RevisionId
}

export function generationOf(revision: RevisionId): number {
  let generation = 0
  for (let at = 0; ; at++) {
    const digit = revision.charCodeAt(at) - DIGIT_ZERO
    // The dash ends the digits; there always is one.
    if (!(digit >= 0)) return generation
    generation = 10 * generation + digit
  }
}

export function hashOf(revision: RevisionId): string {
  return revision.slice(revision.indexOf('-') + 1)
}

/** Of a hash that a server made. */
export const HASH_BYTES = 16
const HASH_LENGTH = 2 * HASH_BYTES

/** Whether a hash is stored as bytes. Hashes of this length are always hexadecimal: others are refused. */
export function isHexadecimal(hash: string): boolean {
  return hash.length === HASH_LENGTH
}

/** The bytes of a hash: 16 where it is hexadecimal, else its text. */
export function hashBytes(hash: string): Buffer {
  return isHexadecimal(hash) ? Buffer.from(hash, 'hex') : Buffer.from(hash, 'utf8')
}

/** Orders hashes by their bytes. */
export function compareHashes(left: string, right: string): number {
  if (left === right) return 0
  if (!isHexadecimal(left) || !isHexadecimal(right)) return hashBytes(left).compare(hashBytes(right))
  return left < right ? -1 : 1
}

const GENERATION_LENGTH = 15
const DIGIT_ZERO = 0x30
const DIGIT_NINE = 0x39
const LETTER_A = 0x61
const LETTER_F = 0x66
