/** Calls map and reduce functions. */

import type { UserFunction } from './compiler.ts'
import type { EmittedRows } from './emitted-rows.ts'
import type { Failures } from './failure.ts'
import { MARKS, type Outcome, type RealmHost } from './interface.ts'
import type { Slices } from './slices.ts'
import type { ThrownValues } from './thrown.ts'

export interface IndexFunctions {
  /** For each document and function its rows, in the form of `emitted-rows.ts`. */
  map(maps: MapFunctions, documents: readonly unknown[]): Outcome
  reduce(reduce: UserFunction, groups: readonly (readonly (readonly [unknown, unknown])[])[]): Outcome
  rereduce(reduce: UserFunction, groups: readonly (readonly unknown[])[]): Outcome
}

export interface MapFunctions {
  readonly functions: readonly UserFunction[]
  /** Whether all of them leave their document and what they emit as it is. */
  readonly isSteady: boolean
}

export function realmIndexFunctions(
  host: RealmHost,
  { describe }: Failures,
  rows: EmittedRows,
  thrown: ThrownValues,
  slices: Slices,
): IndexFunctions {
  const { endOfResult } = MARKS
  const { stringify } = JSON
  const { freeze } = Object
  const { isArray } = Array

  /** Nothing that a document holds can be changed by a function and then be seen by another. */
  const deepFreeze = (value: object): void => {
    freeze(value)
    if (isArray(value)) {
      for (let index = 0; index < value.length; index++) {
        const element: unknown = value[index]
        if (typeof element === 'object' && element !== null) deepFreeze(element)
      }
      return
    }
    for (const name in value) {
      const member: unknown = (value as Record<string, unknown>)[name]
      if (typeof member === 'object' && member !== null) deepFreeze(member)
    }
  }

  const overflow = (): Outcome | undefined =>
    rows.hasOverflowed ? thrown.error('os_process_error', 'Too much was emitted for one document.') : undefined

  const mapFailure = (error: unknown, document: unknown): Outcome | undefined => {
    const fatal = overflow() ?? thrown.fatal(error)
    if (fatal !== undefined) return fatal
    rows.drop(error, document)
    return undefined
  }

  /** What all fails with, if it does: after an exception the function has given nothing. */
  const mapDocument = ({ functions, isSteady }: MapFunctions, document: unknown): Outcome | undefined => {
    if (!isSteady) deepFreeze(document as object)
    for (let index = 0; index < functions.length; index++) {
      // Called without a holder, which would be its `this`.
      const map = functions[index] as UserFunction
      rows.open()
      try {
        map(document)
        rows.check()
      } catch (error) {
        const failure = mapFailure(error, document)
        if (failure !== undefined) return failure
      }
      rows.close(document)
    }
    return overflow()
  }

  const reduceOne = (reduce: UserFunction, keys: unknown, values: unknown, isAgain: boolean): string | Outcome => {
    try {
      return (stringify(reduce(keys, values, isAgain)) ?? 'null') + endOfResult
    } catch (error) {
      const fatal = thrown.fatal(error)
      if (fatal !== undefined) return fatal
      host.log(`function raised exception ${describe(error)}`)
      return `null${endOfResult}`
    }
  }

  return {
    map(maps, documents) {
      rows.begin(maps.isSteady)
      return slices.run({
        count: documents.length,
        one: (index) => mapDocument(maps, documents[index]),
        take: rows.take,
      })
    },
    reduce: (reduce, groups) =>
      slices.gather(groups.length, (index) => {
        const pairs = groups[index] ?? []
        const keys: unknown[] = []
        const values: unknown[] = []
        for (let row = 0; row < pairs.length; row++) {
          const pair = pairs[row]
          keys[row] = pair?.[0]
          values[row] = pair?.[1]
        }
        return reduceOne(reduce, keys, values, false)
      }),
    rereduce: (reduce, groups) => slices.gather(groups.length, (index) => reduceOne(reduce, null, groups[index], true)),
  }
}
