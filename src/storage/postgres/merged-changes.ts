/**
 * The changes of a group of commits merged for one statement: each key once, with its final value.
 */
import { unpacked } from '../rows/packed-rows.ts'
import { storedKey, storedValue } from '../rows/stored-key.ts'
import { ValueTooLargeError } from '../storage-error.ts'
import type { Changes, PackedRows, Put } from '../store.ts'

export interface MergedChanges {
  readonly deletes: readonly Uint8Array[]
  readonly keys: readonly Uint8Array[]
  readonly values: readonly Uint8Array[]
  /** Of keys and values that are put. */
  readonly bytes: number
}

/**
 * PostgreSQL itself would take 1 GB. Values come back as a string of hexadecimal digits, and a string has at most 512 MB: with
 * this limit a value fits, with others of its page beside it.
 */
export const VALUE_LIMIT_BYTES = 128 * 1024 * 1024

/** Without clears. Throws `ValueTooLargeError`. */
export function mergeChanges(group: readonly Changes[]): MergedChanges {
  const merged = new Map<string, Entry>()
  for (const { deletes = [], puts = [], packed } of group) {
    for (const key of deletes) enter(merged, storedKey(key), undefined)
    for (const [key, value] of puts) enter(merged, storedKey(key), storedValue(key, value))
    if (packed) for (const [key, value] of unpacked(packed)) enter(merged, storedKey(key), storedValue(key, value))
  }
  return split(merged)
}

/** Rows of a replacement; a later one wins over an earlier one. */
export function mergeRows(rows: Iterable<Put>): MergedChanges {
  const merged = new Map<string, Entry>()
  for (const [key, value] of rows) enter(merged, storedKey(key), storedValue(key, value))
  return split(merged)
}

/** Rows of one statement of a replacement. */
const PORTION_ROWS = 4000
const PORTION_BYTES = 2 * 1024 * 1024

export function* portionsOf(rows: readonly Put[] | PackedRows): Generator<Put[]> {
  let portion: Put[] = []
  let bytes = 0
  for (const put of 'bounds' in rows ? unpacked(rows) : rows) {
    portion.push(put)
    bytes += put[0].length + put[1].length
    if (portion.length < PORTION_ROWS && bytes < PORTION_BYTES) continue
    yield portion
    portion = []
    bytes = 0
  }
  if (portion.length > 0) yield portion
}

interface Entry {
  readonly key: Uint8Array
  readonly value: Uint8Array | undefined
}

function enter(merged: Map<string, Entry>, key: Uint8Array, value: Uint8Array | undefined): void {
  merged.set(Buffer.from(key.buffer, key.byteOffset, key.byteLength).toString('latin1'), { key, value })
}

function split(merged: Map<string, Entry>): MergedChanges {
  const deletes: Uint8Array[] = []
  const keys: Uint8Array[] = []
  const values: Uint8Array[] = []
  let bytes = 0
  for (const { key, value } of merged.values()) {
    if (!value) deletes.push(key)
    else if (value.length > VALUE_LIMIT_BYTES) throw new ValueTooLargeError(VALUE_LIMIT_BYTES)
    else {
      keys.push(key)
      values.push(value)
      bytes += key.length + value.length
    }
  }
  return { deletes, keys, values, bytes }
}
