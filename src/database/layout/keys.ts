/**
 * The keys in the store of a database, one byte for the kind of row, then the id or number; and the row of its counts and
 * sequences, which is written with each commit and so always matches the others.
 */
import assert from 'node:assert/strict'

const DOCUMENT = 'd'
const TREE = 't'
const CHANGE = 's'
const BODY = 'b'
const ATTACHMENT = 'a'
const LOCAL = 'l'
const PURGE = 'p'
const RANK = 'r'
const META = 'm'

export const DOCUMENT_PREFIX = Buffer.from(DOCUMENT)
export const ATTACHMENT_PREFIX = Buffer.from(ATTACHMENT)
export const CHANGE_PREFIX = Buffer.from(CHANGE)
export const LOCAL_PREFIX = Buffer.from(LOCAL)
export const RANK_PREFIX = Buffer.from(RANK)

export const STATE_KEY = Buffer.from(`${META}state`)
export const IDENTITY_KEY = Buffer.from(`${META}identity`)
export const SECURITY_KEY = Buffer.from(`${META}security`)

/** The queue of documents that expire: the time in milliseconds, then the id. */
export const EXPIRY_PREFIX = Buffer.from(`${META}x`)

export function expiryKey(timeMs: number, id: string): Buffer {
  const time = Buffer.allocUnsafe(8)
  time.writeBigUInt64BE(BigInt(timeMs))
  return Buffer.concat([EXPIRY_PREFIX, time, Buffer.from(id)])
}

/** Whether a key of the queue has a time and an id. */
export function isExpiryKey(key: Buffer): boolean {
  return key.length > EXPIRY_PREFIX.length + 8
}

export function idOfExpiryKey(key: Buffer): string {
  return key.toString('utf8', EXPIRY_PREFIX.length + 8)
}

/** Ids sort by their UTF-8 bytes. */
export function documentKey(id: string): Buffer {
  return shortKey(DOCUMENT_PREFIX, id) ?? Buffer.from(DOCUMENT + id)
}

/** The revision tree of a document, where its record has no room for it. */
export function treeKey(id: string): Buffer {
  return shortKey(TREE_PREFIX, id) ?? Buffer.from(TREE + id)
}

export function localKey(id: string): Buffer {
  return Buffer.from(LOCAL + id)
}

export function idOfLocalKey(key: Buffer): string {
  return key.toString('utf8', 1)
}

export function changeKey(sequence: number): Buffer {
  return numberedKey(CHANGE_PREFIX, sequence)
}

/** Numbers only rise, so bodies are appended and never scattered by id. */
export function bodyKey(body: number): Buffer {
  return numberedKey(BODY_PREFIX, body)
}

export const CHANGE_KEY_BYTES = 9
export const BODY_KEY_BYTES = 9

/** Writes the key at the position and returns the one after it. */
export function writeChangeKey(target: Buffer, at: number, sequence: number): number {
  return writeNumberedKey(target, at, CHANGE_PREFIX, sequence)
}

export function writeBodyKey(target: Buffer, at: number, body: number): number {
  return writeNumberedKey(target, at, BODY_PREFIX, body)
}

export function purgeKey(sequence: number): Buffer {
  return numberedKey(PURGE_PREFIX, sequence)
}

/** One chunk of an attachment's bytes. */
export function attachmentKey(number: number, chunk: number): Buffer {
  const key = Buffer.allocUnsafe(13)
  numberedKey(ATTACHMENT_PREFIX, number).copy(key)
  key.writeUInt32BE(chunk, 9)
  return key
}

export function numberOfAttachmentKey(key: Buffer): number {
  return Number(key.readBigUInt64BE(1))
}

export function idOfDocumentKey(key: Buffer): string {
  return key.toString('utf8', 1)
}

/** Of the key at this offset of a block. */
export function sequenceOfChangeKey(block: Buffer, keyAt = 0): number {
  return numberOf(block, keyAt)
}

export function numberOfBodyKey(block: Buffer, keyAt = 0): number {
  return numberOf(block, keyAt)
}

/** The end of all keys that begin with this byte. */
export function afterPrefix(prefix: Buffer): Buffer {
  return Buffer.of(prefix[0]! + 1)
}

export const BODY_PREFIX = Buffer.from(BODY)
export const TREE_PREFIX = Buffer.from(TREE)
export const PURGE_PREFIX = Buffer.from(PURGE)
export const META_PREFIX = Buffer.from(META)

/** The records of purges, oldest first. */
export const PURGES = { from: PURGE_PREFIX, to: afterPrefix(PURGE_PREFIX) }

const SHORT_LENGTH = 64

/** A key whose text is short and ASCII, as nearly all are: a loop beats the call into the engine's own encoding. */
function shortKey(prefix: Buffer, text: string): Buffer | undefined {
  if (text.length > SHORT_LENGTH) return undefined
  const key = Buffer.allocUnsafe(1 + text.length)
  key[0] = prefix[0]!
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (code > 0x7f) return undefined
    key[1 + i] = code
  }
  return key
}

function numberOf(block: Buffer, keyAt: number): number {
  return block.readUInt32BE(keyAt + 1) * 0x1_0000_0000 + block.readUInt32BE(keyAt + 5)
}

function numberedKey(prefix: Buffer, number: number): Buffer {
  const key = Buffer.allocUnsafe(9)
  writeNumberedKey(key, 0, prefix, number)
  return key
}

function writeNumberedKey(target: Buffer, at: number, prefix: Buffer, number: number): number {
  if (!Number.isSafeInteger(number) || number < 0) assert.fail('A number in a key is a whole one, not negative.')
  target[at] = prefix[0]!
  target.writeUInt32BE(Math.floor(number / 0x1_0000_0000), at + 1)
  return target.writeUInt32BE(number >>> 0, at + 5)
}

/** The counts and sequences of a database. */
export interface DatabaseState {
  readonly updateSequence: number
  /** Documents whose winner is live, and those whose winner is a tombstone. */
  readonly documentCount: number
  readonly deletedCount: number
  readonly purgeSequence: number
  /** The number that the next body gets. */
  readonly nextBody: number
  /** Bytes of the winners' bodies. */
  readonly bodyBytes: number
  readonly revisionLimit: number
  /** How many of the last purges compaction keeps a record of. */
  readonly purgeLimit: number
  /** The sizes right after the last compaction, if there was one. */
  readonly compactedTo?: DatabaseSizes | undefined
  /** How far old tombstones are purged; only where there is a retention. */
  readonly tombstones?: TombstoneProgress | undefined
  /** How far documents were searched for an expiry time; only where documents expire. */
  readonly expiry?: ExpiryProgress | undefined
  /** The update sequences at which a design document, and the security object, were last written. */
  readonly designsAt?: number | undefined
  readonly securityAt?: number | undefined
}

export interface TombstoneProgress {
  /** What the update sequence was at some times, oldest first: what has a lower one is older. */
  readonly marks: readonly (readonly [sequence: number, timeMs: number])[]
  /** Tombstones up to this sequence are purged. */
  readonly through: number
  /** The time of a recent check, by the same clock as that of the marks. */
  readonly checkedMs?: number | undefined
}

export interface ExpiryProgress {
  /** The member of documents that says when they expire. */
  readonly field: string
  /** Documents up to this sequence are in the queue of those that expire. */
  readonly through: number
}

export interface DatabaseSizes {
  readonly fileBytes: number
  readonly dataBytes: number
}

export const INITIAL_STATE: DatabaseState = {
  updateSequence: 0,
  documentCount: 0,
  deletedCount: 0,
  purgeSequence: 0,
  nextBody: 1,
  bodyBytes: 0,
  revisionLimit: 1000,
  purgeLimit: 1000,
}

export function encodeState(state: DatabaseState): Buffer {
  return Buffer.from(JSON.stringify(state))
}

export function decodeState(bytes: Buffer): DatabaseState {
  return { ...INITIAL_STATE, ...JSON.parse(bytes.toString()) }
}

/** The state in what is stored under its key. A new database has none yet. */
export function stateOf(stored: Buffer | undefined): DatabaseState {
  return stored ? decodeState(stored) : INITIAL_STATE
}
