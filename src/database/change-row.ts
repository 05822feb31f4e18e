/**
 * What the index of changes holds of each: the line of the feed, ready to be sent, and what a reader needs beside it.
 *
 *   flags, body number of the winner, the line up to its winner, zero byte, the other leaves of the line
 */
import type { RevisionId } from '../document/revision-id.ts'
import { quoteText } from '../encoding/json-text-splice.ts'
import { VarintReader, writeVarint } from '../encoding/varint.ts'

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

export function encodeChange(sequence: number, { id, leaves, deleted, body }: ChangeRow): Buffer {
  const line = `{"seq":${sequence},"id":${quoteText(id)},"changes":[{"rev":${quoteText(leaves[0] ?? '')}}`
  const rest = leaves.length > 1 ? otherLeaves(leaves) : ''
  const lineBytes = Buffer.byteLength(line)
  const bytes = Buffer.allocUnsafe(1 + 8 + lineBytes + 1 + Buffer.byteLength(rest))
  bytes[0] = deleted ? DELETED : 0
  let at = writeVarint(bytes, 1, body)
  at += bytes.write(line, at)
  bytes[at++] = SEPARATOR
  if (rest !== '') at += bytes.write(rest, at)
  return bytes.subarray(0, at)
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

/** The same together with what its line says. */
export interface DecodedChange extends ChangeRow {
  readonly stored: StoredChange
}

/** Beyond its stored size, what a line of the feed takes at most. */
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
  // The number of the body is not for the feed.
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

/** The same of some of its leaves, as text. */
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

/** Where the parts of a change lie in a block: for readers of very many. */
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

const COMMA = 0x2c
const QUOTE = 0x22
const BACKSLASH = 0x5c
const BEFORE_SEQUENCE = '{"seq":'.length
const BEFORE_ID = ',"id":'.length
const BEFORE_WINNER = ',"changes":[{"rev":'.length
