/** `_first` and `_last`: the value of the row that comes first, or last, in the order of keys and ids. */
import { type NativeReduction, textOf } from './reduction.ts'

export const first: NativeReduction = edge((list) => list[0])
export const last: NativeReduction = edge((list) => list.at(-1))

function edge(choose: <T>(list: readonly T[]) => T | undefined): NativeReduction {
  return {
    reduce: (rows) => choose(rows)?.value ?? NULL,
    rereduce: (reductions) => choose(reductions) ?? NULL,
    result: textOf,
  }
}

const NULL = Buffer.from('null')
