/**
 * User functions of every language. JavaScript runs in the sandbox, other languages in the configured query servers. Processes
 * start with the first call.
 */

import type { Run } from '../runtime/fair-semaphore.ts'
import type { Log } from '../runtime/log/log.ts'
import type { Metrics } from '../runtime/metrics.ts'
import { SELECTOR_LANGUAGE } from '../selectors/index-definition.ts'
import { unknownLanguage } from './function-error.ts'
import type { FunctionSettings } from './function-settings.ts'
import type {
  DesignProgram,
  DocumentCall,
  Functions,
  ListCall,
  MapProgram,
  ReduceInput,
  ReduceProgram,
  ValidatedWrite,
} from './functions.ts'
import { SandboxFunctions } from './sandbox/sandbox-functions.ts'
import { SelectorRows } from './selector-rows.ts'

export interface FunctionsOptions {
  /** Read at each call. */
  readonly settings: () => FunctionSettings
  readonly log: Log
  readonly metrics?: Metrics
  /** None but JavaScript unless given. */
  readonly languages?: Languages
}

/** What runs the functions of other languages, and those of JavaScript where the operator wants them elsewhere. */
export interface Languages {
  /** Undefined for a language that nothing is configured for. */
  find(language: string): Functions | undefined
  close(): Promise<void>
}

export function createFunctions(options: FunctionsOptions): Functions {
  return new LanguageFunctions(options)
}

const BUILT_IN = 'javascript'

class LanguageFunctions implements Functions {
  readonly #sandbox: Functions
  readonly #languages: Languages | undefined
  readonly #selectorRows = new SelectorRows()

  constructor({ settings, log, metrics, languages }: FunctionsOptions) {
    this.#sandbox = new SandboxFunctions({ settings, log, metrics })
    this.#languages = languages
  }

  async map(program: MapProgram, documents: readonly Uint8Array[], run: Run) {
    if (program.language === SELECTOR_LANGUAGE) return this.#selectorRows.map(program, documents)
    return this.#of(program).map(program, documents, run)
  }

  async reduce(program: ReduceProgram, groups: readonly (readonly ReduceInput[])[], run: Run) {
    return this.#of(program).reduce(program, groups, run)
  }

  async rereduce(program: ReduceProgram, groups: readonly (readonly string[])[], run: Run) {
    return this.#of(program).rereduce(program, groups, run)
  }

  async filter(design: DesignProgram, name: string, documents: readonly string[], request: string, run: Run) {
    return this.#of(design).filter(design, name, documents, request, run)
  }

  async filterByView(design: DesignProgram, view: string, documents: readonly string[], run: Run) {
    return this.#of(design).filterByView(design, view, documents, run)
  }

  async validate(design: DesignProgram, writes: readonly ValidatedWrite[], run: Run) {
    return this.#of(design).validate(design, writes, run)
  }

  async show(design: DesignProgram, name: string, call: DocumentCall, run: Run) {
    return this.#of(design).show(design, name, call, run)
  }

  async update(design: DesignProgram, name: string, call: DocumentCall, run: Run) {
    return this.#of(design).update(design, name, call, run)
  }

  async list(design: DesignProgram, name: string, call: ListCall, run: Run) {
    return this.#of(design).list(design, name, call, run)
  }

  prepare(language: string): void {
    if (language === BUILT_IN && !this.#languages?.find(language)) this.#sandbox.prepare(language)
  }

  async close(): Promise<void> {
    await Promise.all([this.#sandbox.close(), this.#languages?.close()])
  }

  #of({ language }: { readonly language: string }): Functions {
    const other = this.#languages?.find(language)
    if (other) return other
    if (language === BUILT_IN) return this.#sandbox
    throw unknownLanguage(language)
  }
}
