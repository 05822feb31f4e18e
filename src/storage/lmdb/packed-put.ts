/** Puts rows that lie in one block, under the keys that they are stored under. No object is made for a row. */

import { packedKey, packedValue } from '../rows/packed-rows.ts'
import type { PackedRows } from '../rows/row.ts'
import { CUT_KEY_BYTES, storedKey, storedValue } from '../rows/stored-key.ts'
import type { WriteTarget } from './write-target.ts'

export function putPacked(target: WriteTarget, rows: PackedRows, first = 0): void {
  const { length, block, bounds } = rows
  for (let row = first; row < length; row++) {
    const keyAt = bounds[3 * row]!
    const valueAt = bounds[3 * row + 1]!
    if (valueAt - keyAt < CUT_KEY_BYTES) {
      target.putPart(block, keyAt, valueAt, bounds[3 * row + 2]!)
      continue
    }
    const key = packedKey(rows, row)
    target.put(storedKey(key), storedValue(key, packedValue(rows, row)))
  }
}
