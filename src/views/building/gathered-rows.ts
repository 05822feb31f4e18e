/**
 * Rows of an index that wait to be sorted, as they will be stored, and which document made which. All lie in one block:
 * hundreds of thousands of them are no load for the garbage collector.
 */
import type { ChangedDocument } from '../changed-documents.ts'
import { documentRowsBytes, writeDocumentRows } from '../document-rows.ts'
import {
  documentKeyBytes,
  escapeId,
  largestRowBytes,
  rowKeyBytes,
  writeDocumentKey,
  writeRow,
  writeRowKey,
} from '../index-layout.ts'
import { type EmittedRow, endOfDocument, type MappedCall, rowsBetween } from '../mapped-documents.ts'
import { keyOrder, MOST_KEYS } from './key-order.ts'
import type { SortedRow } from './sorted-runs.ts'

const FIRST_BYTES = 1024 * 1024
const FIRST_ROWS = 4096
const PORTION_ROWS = 2048

/** What a batch of documents brings fits above it, unless they emit without measure. */
const FULL_ROWS = MOST_KEYS / 2

export class GatheredRows {
  #block = Buffer.allocUnsafeSlow(FIRST_BYTES)
  #bytes = 0
  /** Three offsets a row: its key begins, its value begins, that ends. */
  #bounds = new Uint32Array(3 * FIRST_ROWS)
  #rows = 0

  get bytes(): number {
    return this.#bytes
  }

  /** Whether no document should be added any more. */
  get isFull(): boolean {
    return this.#rows > FULL_ROWS
  }

  /** A document without rows is noted too: it may have had some. A document is added once. */
  add({ documents, batch }: MappedCall): void {
    let text = 0
    let row = 0
    for (const document of documents) {
      const first = row
      if (document.text) row = endOfDocument(batch, first, text++)
      this.#addDocument(document, rowsBetween(batch, first, row))
    }
  }

  /** In the order of their keys. Nothing may be added any more. */
  *sorted(): Generator<SortedRow[]> {
    const order = keyOrder(this.#block, this.#bounds, this.#rows)
    for (let first = 0; first < order.length; first += PORTION_ROWS) {
      const end = Math.min(order.length, first + PORTION_ROWS)
      const portion: SortedRow[] = []
      for (let i = first; i < end; i++) portion.push(this.#row(order[i]!))
      yield portion
    }
  }

  #addDocument(document: ChangedDocument, rows: readonly EmittedRow[]): void {
    const id = escapeId(document.id)
    this.#reserve(documentKeyBytes(document.id) + documentRowsBytes(rows))
    const keyEnd = writeDocumentKey(this.#block, this.#bytes, document.id)
    this.#close(keyEnd, writeDocumentRows(this.#block, keyEnd, rows))
    for (const row of rows) {
      this.#reserve(rowKeyBytes(row, id) + largestRowBytes(document.quotedId, row))
      const valueAt = writeRowKey(this.#block, this.#bytes, row, id)
      this.#close(valueAt, writeRow(this.#block, valueAt, document.quotedId, row))
    }
  }

  #row(row: number): SortedRow {
    const bounds = this.#bounds
    const valueAt = bounds[3 * row + 1]
    return [this.#block.subarray(bounds[3 * row], valueAt), this.#block.subarray(valueAt, bounds[3 * row + 2])]
  }

  #reserve(bytes: number): void {
    const needed = this.#bytes + bytes
    if (needed > this.#block.length) {
      const larger = Buffer.allocUnsafeSlow(Math.max(needed, 2 * this.#block.length))
      this.#block.copy(larger, 0, 0, this.#bytes)
      this.#block = larger
    }
    if (3 * this.#rows === this.#bounds.length) {
      const larger = new Uint32Array(2 * this.#bounds.length)
      larger.set(this.#bounds)
      this.#bounds = larger
    }
  }

  #close(valueAt: number, end: number): void {
    const bound = 3 * this.#rows++
    this.#bounds[bound] = this.#bytes
    this.#bounds[bound + 1] = valueAt
    this.#bounds[bound + 2] = end
    this.#bytes = end
  }
}
