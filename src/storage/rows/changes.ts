/** Checks that hold for changes on every engine, before anything of them is applied. */
import assert from 'node:assert/strict'
import { type Changes, COMMIT_OPERATIONS_LIMIT } from '../store.ts'
import type { PackedRows } from './row.ts'

export function operationCount({ clears = [], deletes = [], puts = [], packed }: Changes): number {
  return clears.length + deletes.length + puts.length + (packed?.length ?? 0)
}

/** How many bytes the values take that are put. */
export function valueBytes({ puts = [], packed }: Changes): number {
  let bytes = 0
  for (const [, value] of puts) bytes += value.length
  // Their keys are short: the end of the last row is near enough.
  return packed && packed.length > 0 ? bytes + packed.bounds[3 * packed.length - 1]! : bytes
}

export function checkChanges(changes: Changes): void {
  assert(operationCount(changes) <= COMMIT_OPERATIONS_LIMIT, 'A commit holds too many operations.')
  for (const key of changes.deletes ?? []) checkKey(key)
  for (const [key] of changes.puts ?? []) checkKey(key)
  if (changes.packed) checkPacked(changes.packed)
}

function checkPacked({ length, block, bounds }: PackedRows): void {
  for (let row = 0; row < length; row++) {
    const keyAt = bounds[3 * row]!
    // The assertion itself would take longer than all else that is done for a row here.
    if (bounds[3 * row + 1]! <= keyAt || block[keyAt] === 0) assert.fail(WRONG_KEY)
  }
}

function checkKey(key: Uint8Array): void {
  assert(key.length > 0 && key[0] !== 0, WRONG_KEY)
}

const WRONG_KEY = 'A key is not empty and does not begin with a zero byte.'
