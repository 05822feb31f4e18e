/** Values of rows as the writer would store them, for stores that are made by hand. */
import { addChange, type ChangeRow } from '../../src/database/layout/change-row.ts'
import { addRecord, type DocumentRecord } from '../../src/database/layout/document-record.ts'
import { documentKey } from '../../src/database/layout/keys.ts'
import { addBody, type StoredBody } from '../../src/database/layout/stored-body.ts'
import type { RevisionTree } from '../../src/document/tree/revision-tree.ts'
import { PackedRowsWriter, packedValue } from '../../src/storage/rows/packed-rows.ts'

export function encodeRecord(record: DocumentRecord & { readonly tree: RevisionTree }): {
  readonly record: Buffer
  readonly tree: Buffer | undefined
} {
  const rows = new PackedRowsWriter()
  const tree = addRecord(rows, documentKey('any'), record)
  return { record: packedValue(rows, 0), tree }
}

export function encodeChange(sequence: number, { id, leaves, deleted, body }: ChangeRow): Buffer {
  const rows = new PackedRowsWriter()
  addChange(rows, sequence, { key: documentKey(id), leaves, deleted, body })
  return packedValue(rows, 0)
}

export function encodeBody(body: StoredBody): Buffer {
  const rows = new PackedRowsWriter()
  addBody(rows, 1, body)
  return packedValue(rows, 0)
}
