/** Checks that hold for changes on every engine, before anything of them is applied. */
import assert from 'node:assert/strict'
import { type Changes, COMMIT_OPERATIONS_LIMIT } from './store.ts'

export function operationCount({ clears = [], deletes = [], puts = [] }: Changes): number {
  return clears.length + deletes.length + puts.length
}

export function checkChanges(changes: Changes): void {
  assert(operationCount(changes) <= COMMIT_OPERATIONS_LIMIT, 'A commit holds too many operations.')
  for (const key of changes.deletes ?? []) checkKey(key)
  for (const [key] of changes.puts ?? []) checkKey(key)
}

function checkKey(key: Uint8Array): void {
  assert(key.length > 0 && key[0] !== 0, 'A key is not empty and does not begin with a zero byte.')
}
