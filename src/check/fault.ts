/** What a check finds wrong with a database or an index. */

export interface Fault {
  /** The document that it concerns; undefined where it concerns all of them. */
  readonly document?: string | undefined
  /** A sentence. */
  readonly problem: string
  /** Whether it can be rebuilt from other rows. */
  readonly isRepairable: boolean
}

export interface CheckListener {
  fault(fault: Fault): void
  /** `share` is between 0 and 1. */
  progress(share: number): void
}

export function faultText({ document, problem }: Fault): string {
  return document === undefined ? problem : `document '${document}': ${problem}`
}

/** Reports faults to a listener, by what can be done about them. */
export class FaultReporter {
  readonly #listener: CheckListener

  constructor(listener: CheckListener) {
    this.#listener = listener
  }

  /** Wrong, but it can be derived again from other rows. */
  derived(problem: string, document?: string): void {
    this.#listener.fault({ document, problem, isRepairable: true })
  }

  /** Wrong or missing, and stored nowhere else. */
  lost(problem: string, document?: string): void {
    this.#listener.fault({ document, problem, isRepairable: false })
  }
}

/** The message of an error, to stand in the middle of a sentence. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message.replace(/\.$/, '') : String(error)
}
