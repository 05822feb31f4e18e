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

export function encodeChange(sequence: number, { id, leaves, deleted, body }: ChangeRow): Buffer {
  const [winner, ...others] = leaves
  const line = `{"seq":${sequence},"id":${quoteText(id)},"changes":[{"rev":${quoteText(winner ?? '')}}`
  const rest = others.map((revision) => `,{"rev":${quoteText(revision)}}`).join('')
  const lineBytes = Buffer.byteLength(line)
  const bytes = Buffer.allocUnsafe(1 + 8 + lineBytes + 1 + Buffer.byteLength(rest))
  bytes[0] = deleted ? DELETED : 0
  let at = writeVarint(bytes, 1, body)
  at += bytes.write(line, at)
  bytes[at++] = SEPARATOR
  at += bytes.write(rest, at)
  return bytes.subarray(0, at)
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
