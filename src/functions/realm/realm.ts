/**
 * What user functions find around them inside an isolate, and the way in: one function that takes an operation and JSON,
 * and gives a mark and text. User code shares this realm and can spoil what comes out for itself, so the process outside
 * does not trust it.
 *
 * The modules of this folder are linked into one script, which each isolate evaluates. They take what they need of the
 * language when the realm is created, before user code can replace it.
 */

import { realmCompiler, type UserFunction } from './compiler.ts'
import { type DesignDocument, realmDesignFunctions, type ShowRequest } from './design-functions.ts'
import { realmEmittedRows } from './emitted-rows.ts'
import { realmFailures } from './failure.ts'
import { type MapFunctions, realmIndexFunctions } from './index-functions.ts'
import { MARKS, type Outcome, type RealmCall, type RealmHost } from './interface.ts'
import { realmModules } from './modules.ts'
import { type NegotiatedRequest, realmNegotiation } from './negotiation.ts'
import { realmOutput } from './output.ts'
import { realmSlices } from './slices.ts'
import { realmThrownValues } from './thrown.ts'

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

/** Ways to memory outside of the isolate's limit, or to waiting: no function has a use for them. */
const WITHHELD = ['console', 'WebAssembly', 'SharedArrayBuffer', 'Atomics']

/** Called once, before any user code runs. */
export function createRealm(log: RealmHost['log'], exchange: RealmHost['exchange']): RealmCall {
  for (const name of WITHHELD) delete (globalThis as Record<string, unknown>)[name]
  const host: RealmHost = { log, exchange }
  const failures = realmFailures()
  const thrown = realmThrownValues(failures)
  const slices = realmSlices()
  const compile = realmCompiler(failures)
  const modules = realmModules(failures)
  const negotiation = realmNegotiation(failures)
  const output = realmOutput(host, failures)
  const rows = realmEmittedRows(host, failures)
  const index = realmIndexFunctions(host, failures, rows, thrown, slices)
  const design = realmDesignFunctions(failures, compile, thrown, slices, output, negotiation, rows)

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
      if (!host.log(text(line))) throw new RangeError('A function logged too much.')
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
    return [MARKS.done, '']
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
