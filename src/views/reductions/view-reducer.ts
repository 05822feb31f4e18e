/**
 * All reductions over the rows of one view as the one reduction that its rank tree keeps, and each of them as a query
 * wants it. How many rows have an inexact sort key is kept too: queries that group must look at those one by one.
 *
 *   number of inexact rows, then of each reduction its length and its bytes
 */
import assert from 'node:assert/strict'
import { VarintReader, writeVarint } from '../../encoding/bytes/short-bytes.ts'
import type { RangePart, Reducer, ReducibleRow } from '../../storage/rank-tree/rank-tree.ts'
import { PlacedRow } from '../../storage/rank-tree/tree-layout.ts'
import { isExactAt, StoredRow } from '../layout/index-layout.ts'
import type { ViewReduction } from '../reading/open-index.ts'
import { type Reduction, reduced } from './reduction.ts'

export class ViewReducer implements Reducer {
  readonly #reductions: readonly Reduction[]

  constructor(reductions: readonly Reduction[]) {
    this.#reductions = reductions
  }

  async reduce(groups: readonly (readonly ReducibleRow[])[]): Promise<Buffer[]> {
    const stored = groups.map(storedRows)
    const parts = await reduced(Promise.all(this.#reductions.map((reduction) => reduction.reduce(stored))))
    return stored.map((rows, i) => pack(inexactAmong(rows), reductionsAt(parts, i)))
  }

  async rereduce(groups: readonly (readonly Uint8Array[])[]): Promise<Buffer[]> {
    const unpacked = groups.map((group) => group.map(unpack))
    const parts = await reduced(
      Promise.all(
        this.#reductions.map((reduction, number) =>
          reduction.rereduce(unpacked.map((group) => group.map(({ reductions }) => reductions[number]!))),
        ),
      ),
    )
    return unpacked.map((group, i) =>
      pack(
        group.reduce((sum, { inexact }) => sum + inexact, 0),
        reductionsAt(parts, i),
      ),
    )
  }

  /** One of the reductions, for queries. */
  reduction(number: number): ViewReduction {
    const reduction = this.#reductions[number]
    assert(reduction, 'A view has no such reduction.')
    return { combine: (ranges) => combine(reduction, number, ranges), isExact }
  }
}

async function combine(
  reduction: Reduction,
  number: number,
  ranges: readonly (readonly RangePart[])[],
): Promise<string[]> {
  const rowGroups = ranges.flatMap((parts) => parts.flatMap((part) => (part.kind === 'rows' ? [part.rows] : [])))
  const reducedRows = rowGroups.length === 0 ? [] : await reduction.reduce(rowGroups.map(storedRows))
  let next = 0
  const groups = ranges.map((parts) =>
    parts.flatMap((part) => {
      if (part.kind === 'rows') return [asBuffer(reducedRows[next++]!)]
      return part.reductions.map((packed) => reductionIn(packed, number))
    }),
  )
  // A single part needs no rereduce.
  const several = groups.filter((group) => group.length > 1)
  const rereduced = several.length === 0 ? [] : await reduction.rereduce(several)
  let nextOfSeveral = 0
  return groups.map((group) => reduction.result(group.length > 1 ? asBuffer(rereduced[nextOfSeveral++]!) : group[0]!))
}

function isExact(range: readonly RangePart[]): boolean {
  return range.every((part) =>
    part.kind === 'rows'
      ? part.rows.every(isExactRow)
      : // The number of inexact rows comes first; only that of zero begins with a zero.
        part.reductions.every((packed) => packed[0] === 0),
  )
}

function isExactRow(row: ReducibleRow): boolean {
  return row instanceof PlacedRow ? isExactAt(row.block, row.valueAt) : isExactAt(row.value, 0)
}

function storedRows(rows: readonly ReducibleRow[]): StoredRow[] {
  return rows.map(storedRow)
}

/** A row as it is stored; no buffer is made for one that is a part of a block. */
export function storedRow(row: ReducibleRow): StoredRow {
  return row instanceof PlacedRow ? new StoredRow(row.block, row.valueAt, row.end) : new StoredRow(row.value)
}

function inexactAmong(rows: readonly StoredRow[]): number {
  let count = 0
  for (const { exact } of rows) if (!exact) count++
  return count
}

function reductionsAt(parts: readonly (readonly Uint8Array[])[], group: number): Uint8Array[] {
  return parts.map((reductions) => reductions[group]!)
}

const VARINT_BYTES = 8

function pack(inexact: number, reductions: readonly Uint8Array[]): Buffer {
  const size = reductions.reduce((sum, { length }) => sum + VARINT_BYTES + length, VARINT_BYTES)
  const bytes = Buffer.allocUnsafe(size)
  let at = writeVarint(bytes, 0, inexact)
  for (const reduction of reductions) {
    at = writeVarint(bytes, at, reduction.length)
    bytes.set(reduction, at)
    at += reduction.length
  }
  return bytes.subarray(0, at)
}

function unpack(packed: Uint8Array): { readonly inexact: number; readonly reductions: readonly Buffer[] } {
  const bytes = asBuffer(packed)
  const reader = new VarintReader(bytes, 0)
  const inexact = reader.number()
  const reductions: Buffer[] = []
  while (reader.at < bytes.length) {
    const size = reader.number()
    reductions.push(bytes.subarray(reader.at, reader.at + size))
    reader.at += size
  }
  return { inexact, reductions }
}

/** One of the reductions alone. */
function reductionIn(packed: Buffer, number: number): Buffer {
  const reader = new VarintReader(packed, 0)
  reader.number()
  for (let i = 0; ; i++) {
    const size = reader.number()
    if (i === number) return packed.subarray(reader.at, reader.at + size)
    reader.at += size
  }
}

function asBuffer(bytes: Uint8Array): Buffer {
  if (bytes instanceof Buffer) return bytes
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
}
