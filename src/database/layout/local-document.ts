/** Documents that stay where they are: counted revisions, no history, in no index and no feed. */
import { formatRevision, generationOf, hashOf, type RevisionId } from '../../document/revisions/revision-id.ts'
import { VarintReader, writeVarint } from '../../encoding/bytes/varint.ts'

export interface LocalDocument {
  /** How often it was written. */
  readonly count: number
  readonly text: Buffer
}

export function encodeLocal({ count, text }: LocalDocument): Buffer {
  const bytes = Buffer.allocUnsafe(8 + text.length)
  const at = writeVarint(bytes, 0, count)
  return bytes.subarray(0, at + text.copy(bytes, at))
}

export function decodeLocal(bytes: Buffer): LocalDocument {
  const reader = new VarintReader(bytes, 0)
  const count = reader.number()
  return { count, text: bytes.subarray(reader.at) }
}

export function localRevision(count: number): RevisionId {
  return formatRevision(0, String(count))
}

/** The count that a revision stands for; undefined when it is none of a local document. */
export function localCount(revision: RevisionId): number | undefined {
  const hash = hashOf(revision)
  return generationOf(revision) === 0 && /^\d{1,15}$/.test(hash) ? Number(hash) : undefined
}
