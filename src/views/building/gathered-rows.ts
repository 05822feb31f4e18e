/**
 * Rows of an index that wait to be sorted, in their stored form, with the document of each. All are in one block, so
 * that hundreds of thousands of them do not load the garbage collector.
 */
import { PackedRowsWriter } from '../../storage/rows/packed-rows.ts'
import type { PackedRows } from '../../storage/store.ts'
import {
  documentKeyBytes,
  documentRowsBytes,
  escapeId,
  largestRowBytes,
  NO_SCOPE,
  rowKeyBytes,
  scopeOfDocument,
  writeDocumentKey,
  writeDocumentRows,
  writeRow,
  writeRowKey,
} from '../layout/index-layout.ts'
import type { DocumentIds } from '../updating/changed-documents.ts'
import { type EmittedRow, endOfDocument, type MappedCall, rowsBetween } from '../updating/mapped-documents.ts'
import { keyOrder } from './key-order.ts'

/** Doubled repeatedly, this reaches the default of `view_building/sort_memory`. */
const FIRST_BYTES = 1.25 * 1024 * 1024

const FIRST_ROWS = 1024

/**
 * Sorting small rows takes more memory than the rows themselves: a limit on their number, apart from the last batch.
 */
const FULL_ROWS = 2 ** 20

export class GatheredRows {
  readonly #rows = new PackedRowsWriter(FIRST_BYTES, FIRST_ROWS, { isSole: true })
  readonly #isPartitioned: boolean

  constructor({ isPartitioned }: { readonly isPartitioned: boolean }) {
    this.#isPartitioned = isPartitioned
  }

  get bytes(): number {
    return this.#rows.end
  }

  /** Whether the block is full. */
  get isFull(): boolean {
    return this.#rows.length > FULL_ROWS
  }

  /** Adds the result of one call of map functions. */
  add({ documents, batch }: MappedCall): void {
    let text = 0
    let row = 0
    for (const document of documents) {
      const first = row
      if (document.text) row = endOfDocument(batch, first, text++)
      this.addDocument(document, rowsBetween(batch, first, row))
    }
  }

  /** A document without rows is recorded too: it may have had rows before. A document is added once. */
  addDocument({ id, quotedId }: DocumentIds, emitted: readonly EmittedRow[]): void {
    const rows = this.#rows
    rows.reserve(documentKeyBytes(id) + documentRowsBytes(emitted))
    const keyEnd = writeDocumentKey(rows.block, rows.end, id)
    rows.close(keyEnd, writeDocumentRows(rows.block, keyEnd, emitted))
    const escapedId = escapeId(id)
    const scope = this.#isPartitioned ? scopeOfDocument(escapedId) : NO_SCOPE
    for (const row of emitted) {
      rows.reserve(rowKeyBytes(row, escapedId, scope) + largestRowBytes(quotedId, row))
      const valueAt = writeRowKey(rows.block, rows.end, row, escapedId, scope)
      rows.close(valueAt, writeRow(rows.block, valueAt, quotedId, row))
    }
  }

  /** In the order of their keys. Nothing may be added any more. */
  *sorted(): Generator<PackedRows> {
    const { block, bounds, length } = this.#rows
    const order = keyOrder(block, bounds, length)
    for (let first = 0, end: number; first < order.length; first = end) {
      end = portionEnd(bounds, order, first)
      const rows = order.subarray(first, end)
      yield { block, bounds: boundsOf(bounds, rows), length: rows.length }
    }
  }

  /** Frees the memory at once. The rows must not be used any more. */
  release(): void {
    this.#rows.release()
  }
}

/** Where a portion ends that begins with this row. */
function portionEnd(bounds: Uint32Array, order: Uint32Array, first: number): number {
  const most = Math.min(first + PORTION_ROWS, order.length)
  let bytes = 0
  let end = first
  while (end < most && bytes < PORTION_BYTES) {
    const row = order[end++]!
    bytes += bounds[3 * row + 2]! - bounds[3 * row]!
  }
  return end
}

/** The bounds of some rows, in the order given. */
function boundsOf(all: Uint32Array, rows: Uint32Array): Uint32Array {
  const bounds = new Uint32Array(3 * rows.length)
  for (let i = 0; i < rows.length; i++) {
    const row = rows[i]!
    bounds[3 * i] = all[3 * row]!
    bounds[3 * i + 1] = all[3 * row + 1]!
    bounds[3 * i + 2] = all[3 * row + 2]!
  }
  return bounds
}

/** Rows are passed on in portions. A portion ends with the row that reaches one of these limits. */
export const PORTION_ROWS = 2048

export const PORTION_BYTES = 1024 * 1024
