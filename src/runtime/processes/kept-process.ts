/** A program that is kept running: started again when it ends, until it ends too often. */
import type { Clock } from '../clock.ts'
import { ExternalProcess, type ExternalProcessOptions } from './external-process.ts'

export interface RetryLimits {
  readonly maxRetries: number
  readonly retryMs: number
}

export interface KeptProcessOptions extends ExternalProcessOptions {
  readonly clock: Clock
  /** Looked at whenever the program ends. */
  readonly limits: () => RetryLimits
  /** Called before each start. */
  readonly onStart?: () => void
}

export class KeptProcess {
  readonly #options: KeptProcessOptions
  /** The times of recent unexpected ends. */
  #exitsMs: number[] = []
  #process: ExternalProcess | undefined
  #ending: Promise<void> = Promise.resolve()
  #isStopped = false

  constructor(options: KeptProcessOptions) {
    this.#options = options
    this.#start()
  }

  /** Dropped while the program does not run. */
  send(message: unknown): void {
    this.#process?.send(message)
  }

  /** Restarts it, also after it was halted. Resolves when the previous process is gone. */
  async restart(): Promise<void> {
    this.#exitsMs = []
    await this.#end()
    if (!this.#isStopped && !this.#process) this.#start()
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    await this.#end()
  }

  #start(): void {
    this.#options.onStart?.()
    const started = this.#started()
    this.#process = started
    started?.exited.then((how) => {
      // Otherwise it was stopped.
      if (this.#process === started) this.#follow(how)
    })
  }

  /** Undefined where the system refuses: then it is as if it were halted. */
  #started(): ExternalProcess | undefined {
    try {
      return new ExternalProcess(this.#options)
    } catch (error) {
      const { name, log } = this.#options
      log.error('An external program cannot be started.', { program: name, error: String(error) })
      return undefined
    }
  }

  #end(): Promise<void> {
    const ended = this.#process
    this.#process = undefined
    if (ended) this.#ending = ended.stop()
    return this.#ending
  }

  #follow(how: string): void {
    const { name, log, clock, limits } = this.#options
    const { maxRetries, retryMs } = limits()
    const nowMs = clock.nowMs()
    // Exits that seem to lie ahead are forgotten: the clock was set back since.
    const isRecent = (exitMs: number) => exitMs <= nowMs && nowMs - exitMs < retryMs
    this.#exitsMs = [...this.#exitsMs.filter(isRecent), nowMs]
    this.#process = undefined
    if (this.#exitsMs.length > maxRetries) {
      log.error('An external program ends too often and is halted until its settings change.', { program: name, how })
      return
    }
    log.warn('An external program ended and is started again.', { program: name, how })
    this.#start()
  }
}
