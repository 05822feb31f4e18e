/** Maps documents: many in one call, several calls at once. Results come in the order of the documents. */
import { availableParallelism } from 'node:os'
import { CollationEncoder } from '../../encoding/collation/collation-key.ts'
import type { JsonValue } from '../../encoding/json/json-value.ts'
import { type Functions, MAPPED_FIELDS, type MapProgram, type MappedBatch } from '../../functions/functions.ts'
import type { Run } from '../../runtime/fair-semaphore.ts'
import type { RowPlace, RowText } from '../layout/index-layout.ts'
import type { ChangedDocument } from './changed-documents.ts'

/** The result of one call: its documents and all their rows. */
export interface MappedCall {
  readonly documents: readonly ChangedDocument[]
  /** Documents are numbered in it by their place among those that have a text. */
  readonly batch: MappedBatch
}

export interface MappedDocument {
  readonly document: ChangedDocument
  /** In no order. */
  readonly rows: readonly EmittedRow[]
}

/** Sort key, key and value of it lie side by side. */
export type EmittedRow = RowPlace & RowText

const CALL_DOCUMENTS = 250
const CALL_BYTES = 512 * 1024

/** Concurrent calls of one index, each in a process of its own. One thread can hardly feed more of them. */
const CALLS_AT_ONCE = Math.min(4, Math.max(2, availableParallelism()))

/** Maps documents while others are read: a call begins as soon as its documents are there. Nobody waits for it before `finish`. */
export class DocumentMapping {
  readonly #map: (documents: readonly ChangedDocument[]) => Promise<MappedCall>
  /** The documents of the next call. */
  #documents: ChangedDocument[] = []
  #bytes = 0
  /** Calls that are not begun yet. */
  readonly #waiting: ChangedDocument[][] = []
  /** The others, in their order. */
  readonly #begun: Promise<MappedCall>[] = []
  #running = 0
  #hasFailed = false

  constructor(functions: Functions, program: MapProgram, run: Run) {
    this.#map = (documents) => mapCall(functions, program, documents, run)
  }

  add(documents: readonly ChangedDocument[]): void {
    for (const document of documents) {
      this.#documents.push(document)
      this.#bytes += document.text?.length ?? 0
      if (this.#documents.length >= CALL_DOCUMENTS || this.#bytes >= CALL_BYTES) this.#endCall()
    }
  }

  /** Resolves to the results of all documents. Rejects with the first failure when no call is running any more. */
  async finish(): Promise<MappedCall[]> {
    if (this.#documents.length > 0) this.#endCall()
    const mapped: MappedCall[] = []
    try {
      // While calls wait, as many are running as may be: the next one has always begun.
      for (let next = this.#begun[0]; next; next = this.#begun[mapped.length]) mapped.push(await next)
    } catch (error) {
      await this.stop()
      throw error
    }
    return mapped
  }

  /** No call is begun any more. Resolves when none is running. */
  async stop(): Promise<void> {
    this.#waiting.length = 0
    await Promise.allSettled(this.#begun)
  }

  #endCall(): void {
    this.#waiting.push(this.#documents)
    this.#documents = []
    this.#bytes = 0
    this.#begin()
  }

  #begin(): void {
    while (this.#running < CALLS_AT_ONCE && !this.#hasFailed) {
      const documents = this.#waiting.shift()
      if (!documents) return
      this.#running++
      this.#begun.push(this.#run(documents))
    }
  }

  #run(documents: readonly ChangedDocument[]): Promise<MappedCall> {
    const call = this.#map(documents)
      .catch((error: unknown) => {
        this.#hasFailed = true
        throw error
      })
      .finally(() => {
        this.#running--
        this.#begin()
      })
    // Awaited in its turn; until then a rejection must not count as unhandled.
    call.catch(() => {})
    return call
  }
}

/** The rows of each document. */
export function documentsOf({ documents, batch }: MappedCall): MappedDocument[] {
  let text = 0
  let row = 0
  return documents.map((document) => {
    if (!document.text) return { document, rows: NO_ROWS }
    const first = row
    row = endOfDocument(batch, first, text++)
    return { document, rows: rowsBetween(batch, first, row) }
  })
}

/** The row with which those of a document end, which begin with this one. */
export function endOfDocument({ rows, fields }: MappedBatch, first: number, document: number): number {
  let row = first
  while (row < rows && fields[row * MAPPED_FIELDS] === document) row++
  return row
}

/** Rows of one document. */
export function rowsBetween(batch: MappedBatch, first: number, end: number): readonly EmittedRow[] {
  const rows: EmittedRow[] = []
  for (let row = first; row < end; row++) rows.push(rowAt(batch, row))
  // Two rows are what most documents have.
  if (rows.length < 2 || (rows.length === 2 && !isSamePlace(rows[0]!, rows[1]!))) return rows
  return numbered(rows)
}

async function mapCall(
  functions: Functions,
  program: MapProgram,
  documents: readonly ChangedDocument[],
  run: Run,
): Promise<MappedCall> {
  const texts: Buffer[] = []
  for (const { text } of documents) if (text) texts.push(text)
  return { documents, batch: texts.length > 0 ? await functions.map(program, texts, run) : NOTHING }
}

const NO_ROWS: readonly EmittedRow[] = []
const NOTHING: MappedBatch = { rows: 0, block: Buffer.alloc(0), fields: new Uint32Array(0) }

function rowAt({ block, fields }: MappedBatch, row: number): EmittedRow {
  const at = row * MAPPED_FIELDS
  return {
    view: fields[at + 1]!,
    number: 0,
    block,
    sortKeyAt: fields[at + 3]!,
    keyAt: fields[at + 4]!,
    valueAt: fields[at + 5]!,
    end: fields[at + 6]!,
    exact: fields[at + 2] === 1,
  }
}

/** Numbers the rows of one document that share view and sort key. */
function numbered(rows: readonly EmittedRow[]): readonly EmittedRow[] {
  const sorted = rows.toSorted(comparePlaces)
  if (!sorted.some((row, i) => i > 0 && comparePlaces(row, sorted[i - 1]!) === 0)) return rows
  const result: EmittedRow[] = []
  for (let first = 0, end: number; first < sorted.length; first = end) {
    end = first + 1
    while (end < sorted.length && comparePlaces(sorted[end]!, sorted[first]!) === 0) end++
    const group = sorted.slice(first, end)
    for (const [number, row] of (group.length > 1 ? inRawOrder(group) : group).entries()) {
      result.push({ ...row, number })
    }
  }
  return result
}

/** A loop is faster: most differ in their length or in one of their first bytes. */
function isSamePlace(a: EmittedRow, b: EmittedRow): boolean {
  const size = a.keyAt - a.sortKeyAt
  if (a.view !== b.view || b.keyAt - b.sortKeyAt !== size) return false
  for (let i = 0; i < size; i++) if (a.block[a.sortKeyAt + i] !== b.block[b.sortKeyAt + i]) return false
  return true
}

function comparePlaces(a: EmittedRow, b: EmittedRow): number {
  return a.view - b.view || a.block.compare(b.block, b.sortKeyAt, b.keyAt, a.sortKeyAt, a.keyAt)
}

const rawEncoder = new CollationEncoder('raw')

function inRawOrder(rows: readonly EmittedRow[]): EmittedRow[] {
  const keyed = rows.map((row) => ({ row, rank: rawRank(row.block.subarray(row.valueAt, row.end)) }))
  return keyed.sort((a, b) => Buffer.compare(a.rank, b.rank)).map(({ row }) => row)
}

function rawRank(text: Buffer): Buffer {
  try {
    const value: JsonValue = JSON.parse(text.toString())
    return rawEncoder.encode(value)
  } catch (error) {
    // Nested too deeply for a key: any order will do, as long as it is always the same.
    if (error instanceof RangeError) return text
    throw error
  }
}
