/**
 * The ids of documents, any text but the empty one, and those of their revisions, `N-hash`: a generation and what tells
 * revisions of one generation apart. A hash is 32 lower-case hexadecimal digits where a server made it, and any other
 * text where a client did. Document ids that begin with an underscore belong to the server.
 */
import { badRequest, illegalDocumentId } from './request-error.ts'

declare const brand: unique symbol
export type DocumentId = string & { readonly [brand]: 'DocumentId' }

/** Checks the id of a document that is to be written. Looking one up needs no check: it is just not found. */
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

/** All ids of design documents: from the first on, up to the last without it. */
export const DESIGN_IDS = { first: '_design/', last: '_design0' } as const

export function isLocalId(id: string): boolean {
  return id.startsWith('_local/')
}

export type RevisionId = string & { readonly [brand]: 'RevisionId' }

/** A revision and its ancestors as far as they are known: hashes newest first, the first of generation `start`. */
export interface RevisionPath {
  readonly start: number
  readonly hashes: readonly string[]
}

/** More than any document lives to see, and safe to count with. */
export const MAX_GENERATION = 999_999_999_999_999

/** Reads a revision from outside. Anything else is the client's error. */
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

/** Whether it is just as a server writes it: to take that apart and put it together again would take longer. */
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

/** The hash as it is stored and compared; undefined where 32 characters are not hexadecimal, or it cannot be UTF-8. */
export function normalHash(hash: string | undefined): string | undefined {
  if (hash?.length !== HASH_LENGTH) return hash?.isWellFormed() ? hash : undefined
  return /^[0-9a-fA-F]{32}$/.test(hash) ? hash.toLowerCase() : undefined
}

/** Whether a hash can stand in a header, as that of every revision must: it is its tag. */
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
    // The dash comes before the digits; there always is one.
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

/** Whether a hash is kept as bytes. Those of this length are of hexadecimal digits: others are not let in. */
export function isHexadecimal(hash: string): boolean {
  return hash.length === HASH_LENGTH
}

/** The bytes a hash stands for: 16 where it is hexadecimal, else its text. */
export function hashBytes(hash: string): Buffer {
  return isHexadecimal(hash) ? Buffer.from(hash, 'hex') : Buffer.from(hash, 'utf8')
}

/** Orders hashes by the bytes they stand for. */
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
