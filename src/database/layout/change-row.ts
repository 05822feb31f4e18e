/**
 * The row of a change (`s`): the line of the changes feed, ready to be sent, and what readers need besides.
 *
 *   flags, body number of the winner, the line up to its winner, zero byte, the other leaves of the line
 */
import type { RevisionId } from '../../document/ids.ts'
import { copyShort, VarintReader, writeAscii, writeDecimal, writeVarint } from '../../encoding/bytes/short-bytes.ts'
import { quoteText } from '../../encoding/json/json-text-splice.ts'
import type { PackedRowsWriter } from '../../storage/rows/packed-rows.ts'
import { CHANGE_KEY_BYTES, idOfDocumentKey, writeChangeKey } from './keys.ts'

export interface ChangeRow {
  readonly id: string
  /** The leaves, the winner first. */
  readonly leaves: readonly RevisionId[]
  readonly deleted: boolean
  /** The number of the winner's body. */
  readonly body: number
}

const DELETED = 1
const SEPARATOR = 0
const CLOSING_BRACKET = 0x5d
const DELETED_MEMBER = Buffer.from(',"deleted":true')

/** A change to be stored. Its id is given as part of the key of its record. */
export interface NewChange extends Omit<ChangeRow, 'id'> {
  readonly key: Buffer
}

/** Adds the row of a change. */
export function addChange(rows: PackedRowsWriter, sequence: number, { key, leaves, deleted, body }: NewChange): void {
  const [winner = ''] = leaves
  const rest = leaves.length > 1 ? otherLeaves(leaves) : ''
  rows.reserve(CHANGE_KEY_BYTES + FIXED_BYTES + ESCAPED_BYTES * (key.length + winner.length) + Buffer.byteLength(rest))
  const { block } = rows
  const valueAt = writeChangeKey(block, rows.end, sequence)
  block[valueAt] = deleted ? DELETED : 0
  let at = writeVarint(block, valueAt + 1, body)
  at = writeAscii(block, at, '{"seq":')
  at = writeDecimal(block, at, sequence)
  at = writeAscii(block, at, ',"id":')
  at = writeQuoted(block, at, key)
  at = writeAscii(block, at, ',"changes":[{"rev":')
  at = writeRevision(block, at, winner)
  at = writeAscii(block, at, '}')
  block[at++] = SEPARATOR
  if (rest !== '') at += block.write(rest, at)
  rows.close(valueAt, at)
}

/** The fixed text of a row, with room for its numbers. */
const FIXED_BYTES = 80
/** The longest escape of one byte in JSON. */
const ESCAPED_BYTES = 6

/** The id of a key as JSON. Nearly always its bytes need no escapes. */
function writeQuoted(target: Buffer, at: number, key: Buffer): number {
  for (let i = 1; i < key.length; i++) {
    const byte = key[i]!
    if (byte < SPACE || byte === QUOTE || byte === BACKSLASH)
      return at + target.write(quoteText(idOfDocumentKey(key)), at)
  }
  target[at] = QUOTE
  const end = at + 1 + copyShort(key, target, at + 1, 1)
  target[end] = QUOTE
  return end + 1
}

/** A revision as JSON. One that a server made needs no escapes. */
function writeRevision(target: Buffer, at: number, revision: string): number {
  let to = at
  target[to++] = QUOTE
  for (let i = 0; i < revision.length; i++) {
    const code = revision.charCodeAt(i)
    if (code < SPACE || code > TILDE || code === QUOTE || code === BACKSLASH) {
      return at + target.write(quoteText(revision), at)
    }
    target[to++] = code
  }
  target[to++] = QUOTE
  return to
}

function otherLeaves([, ...others]: readonly RevisionId[]): string {
  return others.map((revision) => `,{"rev":${quoteText(revision)}}`).join('')
}

/** A change as it is stored, somewhere in a block. */
export interface StoredChange {
  readonly sequence: number
  readonly source: Buffer
  readonly start: number
  readonly end: number
}

/** A stored change and its decoded parts. */
export interface DecodedChange extends ChangeRow {
  readonly stored: StoredChange
}

/** How much longer a line of the feed may be than its stored form. */
export const LINE_EXTRA_BYTES = 32

/**
 * Writes the line of the feed, with all leaves or the winner alone, but for its closing brace, and returns where it ends.
 * The target must have room for what is stored and `LINE_EXTRA_BYTES`.
 */
export function writeLine(
  target: Buffer,
  position: number,
  { source, start, end }: StoredChange,
  leaves: 'winner' | 'all',
): number {
  let begin = start + 1
  // The number of the body is not part of the line.
  while (source[begin]! >= 0x80) begin++
  begin++
  // Most documents have one leaf: then the separator is the last byte.
  const separator = source[end - 1] === SEPARATOR ? end - 1 : source.indexOf(SEPARATOR, begin)
  let at = position + source.copy(target, position, begin, separator)
  if (leaves === 'all' && separator + 1 < end) at += source.copy(target, at, separator + 1, end)
  target[at++] = CLOSING_BRACKET
  if ((source[start]! & DELETED) !== 0) at += DELETED_MEMBER.copy(target, at)
  return at
}

/** The line with some of its leaves, as text. */
export function lineOfLeaves(sequence: number, { id, deleted }: ChangeRow, leaves: readonly RevisionId[]): string {
  const changes = leaves.map((revision) => `{"rev":${quoteText(revision)}}`).join(',')
  return `{"seq":${sequence},"id":${quoteText(id)},"changes":[${changes}]${deleted ? ',"deleted":true' : ''}`
}

export function decodeStored(stored: StoredChange): DecodedChange {
  return { ...decodeChange(stored.source.subarray(stored.start, stored.end)), stored }
}

export function decodeChange(bytes: Buffer): ChangeRow & { readonly sequence: number } {
  const reader = new VarintReader(bytes, 1)
  const body = reader.number()
  const separator = bytes.indexOf(SEPARATOR, reader.at)
  const line = bytes.toString('utf8', reader.at, separator)
  const { seq, id, changes } = JSON.parse(`${line}${bytes.toString('utf8', separator + 1)}]}`)
  return {
    sequence: seq,
    id,
    leaves: changes.map(({ rev }: { rev: RevisionId }) => rev),
    deleted: (bytes[0]! & DELETED) !== 0,
    body,
  }
}

/** The offsets of the parts of a change in a block, for readers of very many. */
export interface ChangePlaces {
  /** JSON texts, with their quotes. */
  readonly idAt: number
  readonly idEnd: number
  readonly winnerAt: number
  readonly winnerEnd: number
  /** Whether the id is its text without the quotes. */
  readonly isPlain: boolean
  readonly deleted: boolean
  /** The number of the winner's body. */
  readonly body: number
  readonly hasOtherLeaves: boolean
}

export function changePlaces(block: Buffer, start = 0, end = block.length): ChangePlaces {
  const reader = new VarintReader(block, start + 1)
  const body = reader.number()
  let idAt = reader.at + BEFORE_SEQUENCE
  while (block[idAt] !== COMMA) idAt++
  idAt += BEFORE_ID
  let isPlain = true
  let idEnd = idAt + 1
  for (; block[idEnd] !== QUOTE; idEnd++) {
    if (block[idEnd] !== BACKSLASH) continue
    isPlain = false
    idEnd++
  }
  idEnd++
  const winnerAt = idEnd + BEFORE_WINNER
  // Most documents have one leaf: then the separator is the last byte.
  const last = end - 1
  const separator = block[last] === SEPARATOR ? last : block.indexOf(SEPARATOR, winnerAt)
  return {
    idAt,
    idEnd,
    winnerAt,
    winnerEnd: separator - 1,
    isPlain,
    deleted: (block[start]! & DELETED) !== 0,
    body,
    hasOtherLeaves: separator < last,
  }
}

const SPACE = 0x20
const TILDE = 0x7e
const COMMA = 0x2c
const QUOTE = 0x22
const BACKSLASH = 0x5c
const BEFORE_SEQUENCE = '{"seq":'.length
const BEFORE_ID = ',"id":'.length
const BEFORE_WINNER = ',"changes":[{"rev":'.length
