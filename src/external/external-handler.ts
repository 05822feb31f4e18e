/**
 * A program of `[external]`: it answers requests, one line for each. Started when it is first needed, asked one thing at
 * a time, and started again for the next request when it ends or does not answer.
 */

import { AnsweringProcess, type AnsweringProcessOptions, processError } from '../runtime/processes/answering-process.ts'
import { FairSemaphore } from '../runtime/queues/fair-semaphore.ts'
import type { Run } from '../runtime/queues/run.ts'

export class ExternalHandler {
  readonly #options: AnsweringProcessOptions
  readonly #semaphore = new FairSemaphore(() => 1)
  #process: AnsweringProcess | undefined

  constructor(options: AnsweringProcessOptions) {
    this.#options = options
  }

  /** The line that answers this one. Who gives up while others are served is not asked for. */
  async ask(line: string, run: Run): Promise<string> {
    await this.#semaphore.acquire(run)
    try {
      if (!this.#process?.isAlive) this.#process = new AnsweringProcess(this.#options)
      return await this.#process.ask(line)
    } finally {
      this.#semaphore.release(run.owner)
    }
  }

  /** The answer cannot be used, and who knows what comes next: the program begins anew. */
  discard(): void {
    this.#process?.kill()
  }

  async stop(): Promise<void> {
    this.#semaphore.close(processError('The program was ended.'))
    await this.#process?.stop()
  }
}
