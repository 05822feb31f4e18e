/** A program in its isolate: what one design document, index or reduce function is, and nothing of any other. */
import type ivm from 'isolated-vm'
import type { Collation } from '../../encoding/collation-key.ts'
import { isolates } from './isolates.ts'
import { MappedRows } from './mapped-rows.ts'
import { MARKS } from './marks.ts'
import { type Outcome, type RealmCall, type RealmHost, type RealmLimits, realmCalls } from './realm/calls.ts'
import { realmCompiler } from './realm/compiler.ts'
import { realmDesignFunctions } from './realm/design-functions.ts'
import { realmEmittedRows } from './realm/emitted-rows.ts'
import { realmFailures } from './realm/failure.ts'
import { realmIndexFunctions } from './realm/index-functions.ts'
import { realmModules } from './realm/modules.ts'
import { realmMutation } from './realm/mutation.ts'
import { realmNegotiation } from './realm/negotiation.ts'
import { realmOutput } from './realm/output.ts'
import { realmSlices } from './realm/slices.ts'
import { realmThrownValues } from './realm/thrown.ts'

/** As the server sends it. */
export interface ProgramText {
  readonly memoryMb: number
  readonly collations?: readonly Collation[]
  /** JSON of what the isolate reads itself. */
  readonly inner: string
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
const REALM = `
  'use strict' // So that no stack trace leads user code to these functions.
  for (const name of ${JSON.stringify(WITHHELD)}) delete globalThis[name]
  const host = { log: $0, exchange: $1 }
  const limits = ${JSON.stringify(LIMITS)}
  const marks = ${JSON.stringify(MARKS)}
  const failures = (${realmFailures})()
  const thrown = (${realmThrownValues})(marks, failures)
  const slices = (${realmSlices})(limits.sliceMs, marks)
  const compile = (${realmCompiler})(failures)
  const mutation = (${realmMutation})()
  const modules = (${realmModules})(failures)
  const negotiation = (${realmNegotiation})(failures)
  const output = (${realmOutput})(host, limits, failures)
  const rows = (${realmEmittedRows})(host, limits, failures)
  const index = (${realmIndexFunctions})(host, marks, failures, rows, thrown, slices)
  const design = (${realmDesignFunctions})(
    marks, failures, compile, thrown, slices, output, negotiation, rows
  )
  return (${realmCalls})({
    host, marks, compile, mutation, modules, negotiation, output, thrown, slices, rows, index, design
  })
`

const COPIED = { arguments: { copy: true }, result: { copy: true } } as const

export class Program {
  readonly rows: MappedRows
  readonly #isolate: ivm.Isolate
  readonly #call: ivm.Reference<RealmCall>
  readonly #failure: Outcome | undefined

  constructor({ memoryMb, collations = [], inner }: ProgramText, host: RealmHost, onLost: () => void) {
    this.rows = new MappedRows(collations)
    this.#isolate = new isolates.Isolate({ memoryLimit: memoryMb, onCatastrophicError: onLost })
    const context = this.#isolate.createContextSync()
    this.#call = context.evalClosureSync(
      REALM,
      [
        new isolates.Callback((line: string) => host.log(line)),
        new isolates.Callback((output: string) => host.exchange(output)),
      ],
      { result: { reference: true } },
    )
    const loaded = this.#run('load', inner)
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
