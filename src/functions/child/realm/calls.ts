/**
 * The way into the isolate: one function that takes an operation and JSON, and gives text and a mark that tells what it
 * is. See `failure.ts` for how this gets there. User code shares the realm, so it can spoil what comes out for itself:
 * that is why nobody outside believes it.
 */

import type { Compile, UserFunction } from './compiler.ts'
import type { DesignDocument, DesignFunctions, ShowRequest } from './design-functions.ts'
import type { EmittedRows } from './emitted-rows.ts'
import type { IndexFunctions, MapFunctions } from './index-functions.ts'
import type { Outcome, RealmCall, RealmHost, RealmMarks } from './interface.ts'
import type { Modules } from './modules.ts'
import type { NegotiatedRequest, Negotiation } from './negotiation.ts'
import type { Output } from './output.ts'
import type { Slices } from './slices.ts'
import type { ThrownValues } from './thrown.ts'

/** As the server sends it; it is one of three things. */
interface LoadedProgram {
  readonly library?: unknown
  readonly maps?: readonly string[]
  /** Whether map functions leave their document and what they emit as it is. */
  readonly isSteady?: boolean
  readonly reduce?: string
  readonly id?: string
  readonly design?: DesignDocument
}

export interface RealmParts {
  readonly host: RealmHost
  readonly marks: RealmMarks
  readonly compile: Compile
  readonly modules: Modules
  readonly negotiation: Negotiation
  readonly output: Output
  readonly thrown: ThrownValues
  readonly slices: Slices
  readonly rows: EmittedRows
  readonly index: IndexFunctions
  readonly design: DesignFunctions
}

export function realmCalls(parts: RealmParts): RealmCall {
  const { host, marks, compile, modules, negotiation, output, thrown, slices, rows, index, design } = parts
  const { parse, stringify } = JSON
  const { entries, defineProperty } = Object
  const { isArray } = Array
  const text = String

  let maps: MapFunctions = { functions: [], isSteady: false }
  let reduce: UserFunction = () => null

  /** What functions find as globals. */
  const environment = {
    emit: rows.emit,
    log(message: unknown): void {
      const line = typeof message === 'string' ? message : stringify(message)
      if (!host.log(text(line))) throw new RangeError('A function logs too much.')
    },
    sum(values: { readonly [name: string]: number }): unknown {
      let total = 0
      for (const name in values) total += values[name] as number
      return total
    },
    isArray: (value: unknown) => isArray(value),
    toJSON: (value: unknown) => stringify(value),
    require: (path: string) => modules.require(path),
    provides: (key: string, answer: UserFunction) => negotiation.provides(key, answer),
    registerType: (key: string, ...types: string[]) => negotiation.registerType(key, ...types),
    start: output.start,
    send: output.send,
    getRow: output.getRow,
  }

  const load = (program: LoadedProgram): Outcome => {
    for (const [name, value] of entries(environment)) {
      if (name === 'require' && program.reduce !== undefined) continue
      defineProperty(globalThis, name, { value, writable: true, configurable: true, enumerable: false })
    }
    modules.use(program.design ?? { views: { lib: program.library } })
    if (program.design) design.use(program.id ?? '', program.design)
    if (program.maps) {
      maps = { functions: program.maps.map(compile), isSteady: program.isSteady === true }
    }
    if (program.reduce !== undefined) reduce = compile(program.reduce)
    return [marks.done, '']
  }

  const operations: { readonly [operation: string]: (input: never) => Outcome } = {
    load,
    map: (documents: readonly unknown[]) => index.map(maps, documents),
    reduce: (groups: readonly (readonly [unknown, unknown])[][]) => index.reduce(reduce, groups),
    rereduce: (groups: readonly (readonly unknown[])[]) => index.rereduce(reduce, groups),
    filter: ([name, documents, request]: [string, unknown[], unknown]) => design.filter(name, documents, request),
    filterByView: ([view, documents]: [string, unknown[]]) => design.filterByView(view, documents),
    validate: (writes: readonly unknown[][]) => design.validate(writes),
    show: ([name, document, request]: [string, unknown, ShowRequest]) => design.show(name, document, request),
    update: ([name, document, request]: [string, unknown, unknown]) => design.update(name, document, request),
    list: ([name, head, request]: [string, unknown, NegotiatedRequest]) => design.list(name, head, request),
    more: () => slices.more(),
  }

  return ([operation, input]) => {
    try {
      const [mark, result] =
        operations[operation]?.(parse(input) as never) ?? thrown.error('unknown_command', operation)
      // What is made by code that functions can get at need not be a text.
      return [mark, text(result)]
    } catch (error) {
      return thrown.plain(error)
    }
  }
}
