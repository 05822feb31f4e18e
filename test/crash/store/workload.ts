/**
 * What the writers of the crash tests write, and what must therefore be found. A writer's rows after its nth commit
 * follow from its name and n alone, so a store that holds anything else lost a commit, or holds half of one.
 */
import { hash } from 'node:crypto'
import type { Changes, Put } from '../../../src/storage/store.ts'

/** So many commits back, rows go again: those of odd commits one by one, the others when a clear comes by. */
const KEPT_COMMITS = 12
const CLEAR_EVERY = 5
/** Every so many commits one of the rows is larger than a page of the file. */
const LARGE_EVERY = 9
const LARGE_BYTES = 20_000

/** The nth commit of a writer, counted from 1. */
export function commitOf(writer: string, n: number): Changes {
  const old = n - KEPT_COMMITS
  const puts = [headOf(writer, n), ...rowsOf(writer, n)]
  if (n % CLEAR_EVERY === 0) {
    return { clears: [{ from: Buffer.from(`${writer}/row/`), to: rowKey(writer, old + 1, 0) }], puts }
  }
  if (old < 1 || old % 2 === 0) return { puts }
  return { deletes: rowsOf(writer, old).map(([key]) => key), puts }
}

/** The rows of a writer after its nth commit, by key. */
export function stateAfter(writer: string, n: number): Map<string, Buffer> {
  if (n === 0) return new Map()
  const lastClear = n - (n % CLEAR_EVERY)
  const puts = [headOf(writer, n)]
  for (let commit = Math.max(1, lastClear - KEPT_COMMITS + 1); commit <= n; commit++) {
    const deleted = commit % 2 === 1 && commit + KEPT_COMMITS <= n
    if (!deleted) puts.push(...rowsOf(writer, commit))
  }
  return new Map(puts.map(([key, value]) => [Buffer.from(key).toString(), Buffer.from(value)]))
}

/** How many commits of the writer the rows show. */
export function commitsIn(writer: string, rows: ReadonlyMap<string, Buffer>): number {
  return Number(rows.get(headKey(writer).toString()) ?? 0)
}

export function headKey(writer: string): Buffer {
  return Buffer.from(`${writer}/head`)
}

function headOf(writer: string, n: number): Put {
  return [headKey(writer), Buffer.from(String(n))]
}

function rowsOf(writer: string, n: number): Put[] {
  return Array.from({ length: 1 + (n % 4) }, (_, i) => [rowKey(writer, n, i), rowValue(writer, n, i)])
}

function rowKey(writer: string, n: number, i: number): Buffer {
  return Buffer.from(`${writer}/row/${String(Math.max(0, n)).padStart(9, '0')}/${i}`)
}

/** Bytes that no other row has, so that pages put in each other's place are noticed. */
function rowValue(writer: string, n: number, i: number): Buffer {
  const digest = hash('sha256', `${writer}/${n}/${i}`, 'buffer')
  const size = n % LARGE_EVERY === 0 && i === 0 ? LARGE_BYTES : 40 + (digest[0]! % 4) * 150
  return Buffer.alloc(size, digest)
}
