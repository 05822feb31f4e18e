/** Map and reduce functions, called inside the isolate; see `failure.ts` for how this gets there. */
import type { RealmHost, RealmLimits, RealmMarks } from './calls.ts'
import type { UserFunction } from './compiler.ts'
import type { Failures } from './failure.ts'
import type { Slices } from './slices.ts'
import type { ThrownValues } from './thrown.ts'

export interface IndexFunctions {
  readonly emit: (key?: unknown, value?: unknown) => void
  /** Whether anything is emitted while this runs; what it is, nobody wants to know. */
  emits(work: () => void): boolean
  /** For each document and function its rows, as JSON arrays of key and value behind each other, and the end of a function. */
  map(maps: MapFunctions, documents: readonly unknown[]): string
  reduce(reduce: UserFunction, groups: readonly (readonly (readonly [unknown, unknown])[])[]): string
  rereduce(reduce: UserFunction, groups: readonly (readonly unknown[])[]): string
}

export interface MapFunctions {
  readonly functions: readonly UserFunction[]
  /** Whether any of them may change a document. */
  readonly mayChange: boolean
}

export function realmIndexFunctions(
  host: RealmHost,
  { emittedCharacters }: RealmLimits,
  { endOfRow, endOfFunction, endOfResult }: RealmMarks,
  { describe }: Failures,
  thrown: ThrownValues,
  slices: Slices,
): IndexFunctions {
  const { stringify } = JSON
  const { freeze } = Object
  const { isArray } = Array

  /** Rows of the document so far. Only ever appended to, so that what it was before a function can be had again. */
  let rows = ''
  let emitCount = 0
  let isMapping = false
  let hasOverflowed = false

  const emit = (key?: unknown, value?: unknown): void => {
    emitCount++
    if (!isMapping) return
    if (rows.length > emittedCharacters) {
      hasOverflowed = true
      throw new RangeError('A document emits too much.')
    }
    rows += stringify([key, value]) + endOfRow
  }

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

  /** Undefined where all is well, also after an exception: then the function has given nothing. */
  const mapFailure = (error: unknown, before: string, document: unknown): string | undefined => {
    const fatal = hasOverflowed ? thrown.error('os_process_error', 'A document emits too much.') : thrown.fatal(error)
    if (fatal !== undefined) return fatal
    rows = before
    const id = (document as { readonly _id?: unknown })._id
    host.log(`function raised exception ${describe(error)} with doc._id ${id}`)
    return undefined
  }

  const mapDocument = ({ functions, mayChange }: MapFunctions, document: unknown): string => {
    if (mayChange) deepFreeze(document as object)
    rows = ''
    isMapping = true
    for (let index = 0; index < functions.length; index++) {
      const before = rows
      // Called without a holder, which would be its `this`.
      const map = functions[index] as UserFunction
      try {
        map(document)
        if (hasOverflowed) throw undefined
      } catch (error) {
        const failure = mapFailure(error, before, document)
        if (failure !== undefined) return failure
      }
      rows += endOfFunction
    }
    isMapping = false
    return rows
  }

  const reduceOne = (reduce: UserFunction, keys: unknown, values: unknown, isAgain: boolean): string => {
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
    emit,
    emits(work) {
      const before = emitCount
      isMapping = false
      work()
      return emitCount > before
    },
    map(maps, documents) {
      hasOverflowed = false
      return slices.run(documents.length, (index) => mapDocument(maps, documents[index]))
    },
    reduce: (reduce, groups) =>
      slices.run(groups.length, (index) => {
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
    rereduce: (reduce, groups) => slices.run(groups.length, (index) => reduceOne(reduce, null, groups[index], true)),
  }
}
