/** A list function in its sandbox, between two pages of rows. It keeps the process until it ends or is cancelled. */

import type { ListOutput, ListRun } from '../functions.ts'
import { Request } from './frame.ts'
import type { SandboxPool } from './sandbox-pool.ts'
import { type CallLimits, ProcessEnd, type SandboxProcess } from './sandbox-process.ts'
import { outputOf, processError } from './sandbox-replies.ts'

export interface SandboxListOptions {
  readonly sandbox: SandboxProcess
  readonly pool: SandboxPool
  /** Asked for at each step. */
  readonly limits: () => CallLimits
  readonly signal: AbortSignal | undefined
}

/** What a function that is given up may take to end by itself: a new process costs more than that. */
const GRACE_MS = 100

export class SandboxList implements ListRun {
  readonly #options: SandboxListOptions
  readonly #onAbort = () => this.abandon()
  #begun: ListOutput = { chunks: [], response: undefined, ended: false }
  #lastStep: Promise<ListOutput> | undefined
  #isOver = false

  constructor(options: SandboxListOptions) {
    this.#options = options
    options.signal?.addEventListener('abort', this.#onAbort, { once: true })
  }

  get begun(): ListOutput {
    return this.#begun
  }

  /** Calls the function; to be done once, before all else. Rejects with a `ProcessEnd` where the process ends. */
  async begin(number: number, parts: readonly Uint8Array[]): Promise<ListRun> {
    this.#begun = await this.#next(Request.call, number, parts)
    return this
  }

  rows(rows: readonly string[]): Promise<ListOutput> {
    return this.#continueWith(Request.rows, [Buffer.from(`[${rows}]`)])
  }

  end(): Promise<ListOutput> {
    return this.#continueWith(Request.noMoreRows, [])
  }

  abandon(): void {
    if (this.#isOver) return
    this.#isOver = true
    void this.#windDown()
  }

  async #next(kind: number, number: number, parts: readonly Uint8Array[]): Promise<ListOutput> {
    const { signal } = this.#options
    signal?.throwIfAborted()
    if (this.#isOver) throw new Error('The list function has ended.')
    try {
      this.#lastStep = this.#step(kind, number, parts)
      const output = await this.#lastStep
      if (output.ended) this.#finish()
      return output
    } catch (error) {
      this.#finish()
      signal?.throwIfAborted()
      throw error
    }
  }

  /** Rows are consumed once they were sent: the call cannot be repeated. */
  async #continueWith(kind: number, parts: readonly Uint8Array[]): Promise<ListOutput> {
    try {
      return await this.#next(kind, 0, parts)
    } catch (error) {
      throw error instanceof ProcessEnd ? processError(error) : error
    }
  }

  async #step(kind: number, number: number, parts: readonly Uint8Array[]): Promise<ListOutput> {
    const { sandbox, limits } = this.#options
    return outputOf(await sandbox.call(kind, number, parts, limits()), sandbox)
  }

  #finish(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#release()
  }

  /** Signals the end of the rows to the function; its output is discarded. */
  async #windDown(): Promise<void> {
    const impatience = setTimeout(() => this.#options.sandbox.kill('closed'), GRACE_MS)
    try {
      let output = await this.#lastStep
      while (!output?.ended) output = await this.#step(Request.noMoreRows, 0, [])
    } catch {
      // It ended in another way.
    }
    clearTimeout(impatience)
    this.#release()
  }

  #release(): void {
    const { sandbox, pool, signal } = this.#options
    signal?.removeEventListener('abort', this.#onAbort)
    pool.giveBack(sandbox)
  }
}
