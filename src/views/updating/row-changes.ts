/**
 * The row changes of a batch of documents: new rows are compared with the previous ones, and only differences are
 * written. Documents come in the order of their changes; the last change of a document counts.
 */

import type { Put, Snapshot } from '../../storage/store.ts'
import {
  decodeDocumentRows,
  documentKey,
  encodeDocumentRows,
  encodeRowText,
  escapeId,
  NO_SCOPE,
  rowKeyOf,
  scopeOfDocument,
} from '../layout/index-layout.ts'
import type { MappedDocument } from './mapped-documents.ts'

export interface RowChange {
  readonly view: number
  /** With its prefix. */
  readonly key: Buffer
  readonly existed: boolean
  /** The new value; undefined if the row is removed. */
  readonly value: Buffer | undefined
}

export interface PlannedRows {
  /** In no order. */
  readonly rows: readonly RowChange[]
  /** Which rows each document made. */
  readonly documentPuts: readonly Put[]
  readonly documentDeletes: readonly Buffer[]
}

export async function planRows(
  snapshot: Snapshot,
  mapped: readonly MappedDocument[],
  index: { readonly isPartitioned: boolean },
): Promise<PlannedRows> {
  const documents = lastOfEach(mapped)
  const keys = documents.map(({ document }) => documentKey(document.id))
  const stored = await snapshot.getMany(keys)
  const rows: RowChange[] = []
  const kept: RowChange[] = []
  const documentPuts: Put[] = []
  const documentDeletes: Buffer[] = []
  for (let i = 0; i < documents.length; i++) {
    const document = documents[i]!
    const before = stored[i]
    const after = encodeDocumentRows(document.rows)
    compareRows(document, before, index, { changed: rows, kept })
    if (document.rows.length === 0) {
      if (before) documentDeletes.push(keys[i]!)
    } else if (!before?.equals(after)) documentPuts.push([keys[i]!, after])
  }
  const old = await snapshot.getMany(kept.map(({ key }) => key))
  for (const [i, change] of kept.entries()) if (!change.value?.equals(old[i] ?? NOTHING)) rows.push(change)
  return { rows, documentPuts, documentDeletes }
}

const NOTHING = Buffer.alloc(0)

/** Adds new and removed rows to one list, and rows whose values must be compared to another. */
function compareRows(
  { document, rows: emitted }: MappedDocument,
  stored: Buffer | undefined,
  { isPartitioned }: { readonly isPartitioned: boolean },
  { changed, kept }: { readonly changed: RowChange[]; readonly kept: RowChange[] },
): void {
  const id = escapeId(document.id)
  const scope = isPartitioned ? scopeOfDocument(id) : NO_SCOPE
  if (!stored) {
    for (const row of emitted) {
      const value = encodeRowText(document.quotedId, row)
      changed.push({ view: row.view, key: rowKeyOf(row, id, scope), existed: false, value })
    }
    return
  }
  const old = new Map<string, RowChange>()
  for (const place of decodeDocumentRows(stored)) {
    const key = rowKeyOf(place, id, scope)
    old.set(key.toString('latin1'), { view: place.view, key, existed: true, value: undefined })
  }
  for (const row of emitted) {
    const key = rowKeyOf(row, id, scope)
    const existed = old.delete(key.toString('latin1'))
    const list = existed ? kept : changed
    list.push({ view: row.view, key, existed, value: encodeRowText(document.quotedId, row) })
  }
  for (const gone of old.values()) changed.push(gone)
}

function lastOfEach(mapped: readonly MappedDocument[]): MappedDocument[] {
  const last = new Map<string, MappedDocument>()
  for (const each of mapped) last.set(each.document.id.toString('latin1'), each)
  return [...last.values()]
}
