/** A program in its isolate: what one design document, index or reduce function is, and nothing of any other. */
import type ivm from 'isolated-vm'
import type { Collation } from '../../encoding/collation/collation-key.ts'
import { isolates } from './isolates.ts'
import { MappedRows } from './mapped-rows.ts'
import { MARKS } from './marks.ts'
import { changeNothing } from './mutation.ts'
import { parseScript } from './parser.ts'
import { realmCalls } from './realm/calls.ts'
import { realmCompiler } from './realm/compiler.ts'
import { realmDesignFunctions } from './realm/design-functions.ts'
import { realmEmittedRows } from './realm/emitted-rows.ts'
import { realmFailures } from './realm/failure.ts'
import { realmIndexFunctions } from './realm/index-functions.ts'
import type { Outcome, RealmCall, RealmHost, RealmLimits } from './realm/interface.ts'
import { realmModules } from './realm/modules.ts'
import { realmNegotiation } from './realm/negotiation.ts'
import { realmOutput } from './realm/output.ts'
import { realmSlices } from './realm/slices.ts'
import { realmThrownValues } from './realm/thrown.ts'

/** As the server sends it. */
export interface ProgramText {
  readonly memoryMb: number
  /** Its map functions. */
  readonly maps?: readonly { readonly source: string; readonly collation: Collation }[]
  /** JSON of the members that the isolate reads itself, in no braces. */
  readonly members: string
}

const LIMITS: RealmLimits = {
  sliceMs: 100,
  emittedCharacters: 64 * 1024 * 1024,
  sentCharacters: 256 * 1024,
  shownCharacters: 64 * 1024 * 1024,
}

/** Ways to memory outside of the isolate's limit, or to waiting: no function has a use for them. */
const WITHHELD = ['console', 'WebAssembly', 'SharedArrayBuffer', 'Atomics']

/** The files of `realm` are evaluated from their own text; they meet here. */
const REALM = `(function (log, exchange) {
  'use strict' // So that no stack trace leads user code to these functions.
  for (const name of ${JSON.stringify(WITHHELD)}) delete globalThis[name]
  const host = { log, exchange }
  const limits = ${JSON.stringify(LIMITS)}
  const marks = ${JSON.stringify(MARKS)}
  const failures = (${realmFailures})()
  const thrown = (${realmThrownValues})(marks, failures)
  const slices = (${realmSlices})(limits.sliceMs, marks)
  const compile = (${realmCompiler})(failures)
  const modules = (${realmModules})(failures)
  const negotiation = (${realmNegotiation})(failures)
  const output = (${realmOutput})(host, limits, failures)
  const rows = (${realmEmittedRows})(host, limits, failures)
  const index = (${realmIndexFunctions})(host, marks, failures, rows, thrown, slices)
  const design = (${realmDesignFunctions})(
    marks, failures, compile, thrown, slices, output, negotiation, rows
  )
  return (${realmCalls})({
    host, marks, compile, modules, negotiation, output, thrown, slices, rows, index, design
  })
})`

const COPIED = { arguments: { copy: true }, result: { copy: true } } as const

export class Program {
  readonly rows: MappedRows
  readonly #isolate: ivm.Isolate
  readonly #call: ivm.Reference<RealmCall>
  readonly #failure: Outcome | undefined

  constructor({ memoryMb, maps, members }: ProgramText, host: RealmHost, onLost: () => void) {
    this.rows = new MappedRows(maps?.map(({ collation }) => collation) ?? [])
    this.#isolate = new isolates.Isolate({ memoryLimit: memoryMb, onCatastrophicError: onLost })
    this.#call = realmIn(this.#isolate, host)
    const loaded = this.#run('load', `{${members}${maps ? `,${mapMembers(maps)}` : ''}}`)
    const [mark] = loaded
    this.#failure = mark === MARKS.done ? undefined : loaded
  }

  /** What loading failed with: every call fails with it. */
  get failure(): Outcome | undefined {
    return this.#failure
  }

  call(operation: string, input: string): Outcome {
    return this.#failure ?? this.#run(operation, input)
  }

  /** Goes on where a call was interrupted. */
  more(): Outcome {
    return this.#run('more', 'null')
  }

  drop(): void {
    if (!this.#isolate.isDisposed) this.#isolate.dispose()
  }

  #run(operation: string, input: string): Outcome {
    return this.#call.applySync(undefined, [[operation, input]], COPIED)
  }
}

/** Compiling the same text again costs a tenth with what the engine has kept of the first time. */
let compiledRealm: ivm.ExternalCopy<ArrayBuffer> | undefined

function realmIn(isolate: ivm.Isolate, host: RealmHost): ivm.Reference<RealmCall> {
  const context = isolate.createContextSync()
  const script: ivm.Script & ivm.CachedDataResult = isolate.compileScriptSync(
    REALM,
    compiledRealm ? { cachedData: compiledRealm } : { produceCachedData: true },
  )
  compiledRealm ??= script.cachedData
  const realm: ivm.Reference<(...host: unknown[]) => RealmCall> = script.runSync(context, { reference: true })
  const log = new isolates.Callback((line: string) => host.log(line))
  const exchange = new isolates.Callback((output: string) => host.exchange(output))
  return realm.applySync(undefined, [log, exchange], { result: { reference: true } })
}

/** Judged out here: an isolate would have to compile the parser for its one program. */
function mapMembers(maps: readonly { readonly source: string }[]): string {
  const sources = maps.map(({ source }) => source)
  return `"maps":${JSON.stringify(sources)},"isSteady":${changeNothing(sources, parseScript)}`
}
