/** `_count`: how many rows there are. */
import { type NativeReduction, textOf } from './reduction.ts'

export const count: NativeReduction = {
  reduce: (rows) => Buffer.from(String(rows.length)),
  rereduce: (reductions) => Buffer.from(String(reductions.reduce((sum, each) => sum + Number(textOf(each)), 0))),
  result: textOf,
}
