/** A program in an isolate of its own: the functions of one design document, index or view. */
import type ivm from 'isolated-vm'
import type { Collation } from '../../encoding/collation/collation-key.ts'
import { MARKS, type Outcome, type RealmCall, type RealmHost } from '../realm/interface.ts'
import { isolates, parseScript } from './libraries.ts'
import { MappedRows } from './mapped-rows.ts'
import { changeNothing } from './mutation.ts'

/** As the server sends it. */
export interface ProgramText {
  readonly memoryMb: number
  /** Its map functions. */
  readonly maps?: readonly { readonly source: string; readonly collation: Collation }[]
  /** JSON of the members that the isolate reads itself, in no braces. */
  readonly members: string
}

/** Evaluates to `createRealm` of `realm/realm.ts`. Put in front of this script by `sandbox-script.ts`. */
declare const REALM_SCRIPT: string

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
    REALM_SCRIPT,
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
