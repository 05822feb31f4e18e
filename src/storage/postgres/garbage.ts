/**
 * Removes the rows of spaces that no store uses any more: of dropped stores, of replaced rows, and of replacements whose server
 * died. It works in the background, some rows at a time. Transactions that still read them keep seeing them.
 */
import { setTimeout as pause } from 'node:timers/promises'
import type { Parameter, ResultRow } from './connection.ts'
import { STATEMENTS, type Statement } from './statements.ts'

type Run = (statement: Statement, parameters: readonly Parameter[]) => Promise<ResultRow[]>

const ROWS_A_STATEMENT = 2000
const PAUSE_MS = 5
const EVERY_MS = 30_000
/** A replacement without progress for this time is abandoned. */
const ABANDONED_SECONDS = 3600

export class Garbage {
  readonly #run: Run
  #sweeping: Promise<void> | undefined
  #isDue = false
  #isClosed = false
  readonly #timer: NodeJS.Timeout

  constructor(run: Run) {
    this.#run = run
    this.#timer = setInterval(() => this.sweepSoon(), EVERY_MS).unref()
  }

  sweepSoon(): void {
    this.#isDue = true
    if (!this.#isClosed) this.#sweeping ??= this.#sweepWhileDue()
  }

  async close(): Promise<void> {
    this.#isClosed = true
    clearInterval(this.#timer)
    await this.#sweeping
  }

  /** A failure is tried again with the next round. */
  async #sweepWhileDue(): Promise<void> {
    try {
      while (this.#isDue && !this.#isClosed) {
        this.#isDue = false
        for (const [space] of await this.#run(STATEMENTS.findGarbage, [ABANDONED_SECONDS]))
          await this.#remove(Number(space))
      }
    } catch {
      this.#isDue = false
    } finally {
      this.#sweeping = undefined
    }
  }

  async #remove(space: number): Promise<void> {
    for (let removed = ROWS_A_STATEMENT; removed === ROWS_A_STATEMENT; ) {
      if (this.#isClosed) return
      removed = (await this.#run(STATEMENTS.sweep, [space, ROWS_A_STATEMENT])).length
      await pause(PAUSE_MS)
    }
    await this.#run(STATEMENTS.forgetGarbage, [space])
  }
}
