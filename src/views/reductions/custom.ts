/** A reduce function of a design document. Its reductions are the JSON text that it returned. */
import type { Functions, ReduceInput, ReduceProgram } from '../../functions/functions.ts'
import type { Run } from '../../runtime/fair-semaphore.ts'
import type { StoredRow } from '../layout/index-layout.ts'
import { type Reduction, textOf } from './reduction.ts'

export function custom(functions: Functions, program: ReduceProgram, run: Run): Reduction {
  return {
    reduce: async (groups) => {
      const inputs = groups.map((rows) => rows.map(inputOf))
      return (await functions.reduce(program, inputs, run)).map(asBytes)
    },
    rereduce: async (groups) => {
      const inputs = groups.map((reductions) => reductions.map(textOf))
      return (await functions.rereduce(program, inputs, run)).map(asBytes)
    },
    result: textOf,
  }
}

function inputOf(row: StoredRow): ReduceInput {
  return { key: row.key.toString(), id: JSON.parse(row.id.toString()), value: row.value.toString() }
}

function asBytes(text: string): Buffer {
  return Buffer.from(text)
}
