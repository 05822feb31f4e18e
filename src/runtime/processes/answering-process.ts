/**
 * A program that answers one line for each line that it is sent, in order. If it times out, ends, or sends an
 * unexpected line, all pending requests fail and the program is ended.
 */
import { constants } from 'node:os'
import { RequestError } from '../../document/request-error.ts'
import type { Log } from '../log/log.ts'
import { ExternalProcess } from './external-process.ts'

export interface AnsweringProcessOptions {
  /** What the log calls it. */
  readonly name: string
  readonly command: string
  readonly log: Log
  /** The timeout of an answer; read each time. */
  readonly timeoutMs: () => number
  /** True for a line that answers nothing, and was dealt with. It is a sign of life all the same. */
  readonly isAside?: (line: string) => boolean
}

/** One that talks and never answers is not waited for. */
const MOST_ASIDES = 10_000
const LONGEST_LINE_BYTES = 64 * 1024 * 1024

interface Asked {
  answer(line: string): void
  fail(error: RequestError): void
}

export class AnsweringProcess {
  readonly #options: AnsweringProcessOptions
  readonly #process: ExternalProcess
  #asked: Asked[] = []
  #asides = 0
  #timeout: NodeJS.Timeout | undefined
  #failure: RequestError | undefined

  /** Throws where the system has no room for one more. */
  constructor(options: AnsweringProcessOptions) {
    const { name, command, log } = options
    this.#options = options
    this.#process = new ExternalProcess({
      name,
      command,
      log,
      onLine: (line) => this.#receive(line),
      longestLineBytes: LONGEST_LINE_BYTES,
      // Bounded by the callers, which wait for their answers.
      waitingBytes: Number.POSITIVE_INFINITY,
    })
    const { exited, closed } = this.#process
    closed.then(async () => this.#fail(processError(exitText(await exited))))
  }

  /** Whether it can be asked anything. */
  get isAlive(): boolean {
    return this.#failure === undefined
  }

  /** The line that answers this one, which must have no line break in it. */
  ask(line: string): Promise<string> {
    if (this.#failure) return Promise.reject(this.#failure)
    return new Promise((answer, fail) => {
      this.#asked.push({ answer, fail })
      if (this.#asked.length === 1) this.#restartTimeout()
      this.#process.sendLine(line)
    })
  }

  /** Asks nothing more of it, and makes it end. What is still unanswered fails with the reason. */
  kill(reason: RequestError = processError('The process was ended.')): void {
    this.#fail(reason)
  }

  /** Resolves when it is gone. */
  async stop(): Promise<void> {
    this.#giveUp(processError('The process was ended.'))
    await this.#process.stop()
  }

  #receive(line: string): void {
    if (this.#options.isAside?.(line)) {
      this.#asides++
      if (this.#asked.length === 0) return
      if (this.#asides > MOST_ASIDES) this.#fail(processError('It logs without end and does not answer.'))
      else this.#restartTimeout()
      return
    }
    const asked = this.#asked.shift()
    if (!asked) {
      this.#fail(processError('It answered without being asked.'))
      return
    }
    this.#asides = 0
    this.#restartTimeout()
    asked.answer(line)
  }

  /** The clock runs while something is asked, and starts again with each line. */
  #restartTimeout(): void {
    clearTimeout(this.#timeout)
    if (this.#asked.length === 0) return
    this.#timeout = setTimeout(
      () => this.#fail(processError('OS process timed out.')),
      Math.min(this.#options.timeoutMs(), LONGEST_TIMER_MS),
    )
  }

  #fail(error: RequestError): void {
    this.#giveUp(error)
    this.#process.kill('SIGKILL')
  }

  #giveUp(error: RequestError): void {
    this.#failure ??= error
    clearTimeout(this.#timeout)
    const asked = this.#asked
    this.#asked = []
    for (const each of asked) each.fail(error)
  }
}

/** Timers of more than this fire at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1

export function processError(reason: string): RequestError {
  return new RequestError('failed', 'os_process_error', reason)
}

/** As in CouchDB; the end by a signal has the status that a shell gives it. */
function exitText(how: string): string {
  const [, status] = /^status (\d+)$/.exec(how) ?? []
  const signal = Object.entries(constants.signals).find(([name]) => name === how)?.[1]
  if (status === undefined && signal === undefined) return how
  return `{exit_status,${status ?? 128 + (signal ?? 0)}}`
}
