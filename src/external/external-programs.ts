/**
 * External programs of the configuration: `[os_daemons]`, `[update_notification]`, which receive events of databases,
 * and `[external]`, which answer requests.
 */
import type { Configuration, SettingChange } from '../config/configuration.ts'
import type { Databases } from '../database/databases.ts'
import type { Clock } from '../runtime/clock.ts'
import { FairSemaphore, type Run } from '../runtime/fair-semaphore.ts'
import type { Log } from '../runtime/log/log.ts'
import { AnsweringProcess, type AnsweringProcessOptions, processError } from '../runtime/processes/answering-process.ts'
import { KeptProcess, type RetryLimits } from '../runtime/processes/kept-process.ts'
import { OsDaemon } from './os-daemon.ts'

export interface ExternalSurroundings {
  readonly configuration: Configuration
  readonly databases: Databases
  readonly clock: Clock
  readonly log: Log
}

export class ExternalPrograms {
  readonly #daemons: ProgramSection<OsDaemon>
  readonly #notified: ProgramSection<KeptProcess>
  readonly #handlers: ProgramSection<ExternalHandler>
  readonly #databases: Databases
  readonly #subscriptions: (() => void)[]
  /** Set while a program wants to be notified. */
  #unsubscribe: (() => void) | undefined

  constructor({ configuration, databases, clock, log }: ExternalSurroundings) {
    this.#databases = databases
    const shared = { clock, log, limits: () => retryLimits(configuration) }
    this.#daemons = new ProgramSection('os_daemons', configuration, log, (name, command) => {
      return new OsDaemon(configuration, { ...shared, name: `os_daemons/${name}`, command })
    })
    this.#notified = new ProgramSection('update_notification', configuration, log, (name, command) => {
      return new KeptProcess({ ...shared, name: `update_notification/${name}`, command })
    })
    const timeoutMs = () => configuration.integer('service', 'os_process_timeout')
    this.#handlers = new ProgramSection('external', configuration, log, (name, command) => {
      return new ExternalHandler({ name: `external/${name}`, command, log, timeoutMs })
    })
    this.#subscriptions = [configuration.onChange((change) => this.#follow(change))]
    this.#subscribe()
  }

  /** The program that answers requests under this name. */
  handler(name: string): ExternalHandler | undefined {
    return this.#handlers.get(name)
  }

  /** Resolves when all are gone. */
  async close(): Promise<void> {
    for (const end of this.#subscriptions) end()
    this.#unsubscribe?.()
    await Promise.all([this.#daemons.stop(), this.#notified.stop(), this.#handlers.stop()])
  }

  /** Most servers notify nobody: their writes then publish no events to here. */
  #subscribe(): void {
    this.#unsubscribe?.()
    this.#unsubscribe = undefined
    if (this.#notified.isEmpty) return
    this.#unsubscribe = this.#databases.onEvent((event) => {
      for (const program of this.#notified) program.send(event)
    })
  }

  async #follow(change: SettingChange): Promise<void> {
    await this.#notified.follow(change)
    this.#subscribe()
    await this.#handlers.follow(change)
    // Programs that registered first: one that starts now has seen the change.
    await Promise.all([...this.#daemons].map((daemon) => daemon.follow(change)))
    await this.#daemons.follow(change)
  }
}

function retryLimits(configuration: Configuration): RetryLimits {
  return {
    maxRetries: configuration.integer('os_daemon_settings', 'max_retries'),
    retryMs: 1000 * configuration.integer('os_daemon_settings', 'retry_time'),
  }
}

/**
 * A program of `[external]`: it answers requests, one line for each. Started on demand, used for one request at a time,
 * and restarted for the next request after it ended or timed out.
 */
class ExternalHandler {
  readonly #options: AnsweringProcessOptions
  readonly #semaphore = new FairSemaphore(() => 1)
  #process: AnsweringProcess | undefined

  constructor(options: AnsweringProcessOptions) {
    this.#options = options
  }

  /** The line that answers this one. A request that is aborted while it waits is not sent. */
  async ask(line: string, run: Run): Promise<string> {
    await this.#semaphore.acquire(run)
    try {
      if (!this.#process?.isAlive) this.#process = new AnsweringProcess(this.#options)
      return await this.#process.ask(line)
    } finally {
      this.#semaphore.release(run.owner)
    }
  }

  /** The answer is not valid, so the program is restarted. */
  discard(): void {
    this.#process?.kill()
  }

  async stop(): Promise<void> {
    this.#semaphore.close(processError('The program was ended.'))
    await this.#process?.stop()
  }
}

export interface Program {
  stop(): Promise<void>
}

/**
 * The programs of one section of the configuration, `name = command`. Only commands from files, environment or flags
 * run: a client that changes settings over HTTP can stop and restart a program, but cannot choose what runs.
 */
class ProgramSection<P extends Program> {
  readonly #section: string
  readonly #configuration: Configuration
  readonly #log: Log
  readonly #begin: (name: string, command: string) => P
  readonly #programs = new Map<string, P>()

  constructor(section: string, configuration: Configuration, log: Log, begin: (name: string, command: string) => P) {
    this.#section = section
    this.#configuration = configuration
    this.#log = log
    this.#begin = begin
    for (const name of configuration.section(section).keys()) this.#run(name)
  }

  get(name: string): P | undefined {
    return this.#programs.get(name)
  }

  get isEmpty(): boolean {
    return this.#programs.size === 0
  }

  [Symbol.iterator](): IterableIterator<P> {
    return this.#programs.values()
  }

  /** Changes come one after the other. */
  async follow({ section, key }: SettingChange): Promise<void> {
    if (section !== this.#section) return
    const before = this.#programs.get(key)
    this.#programs.delete(key)
    await before?.stop()
    this.#run(key)
  }

  async stop(): Promise<void> {
    await Promise.all([...this].map((program) => program.stop()))
    this.#programs.clear()
  }

  #run(name: string): void {
    const command = this.#configuration.get(this.#section, name)
    if (command === undefined) return
    if (command === this.#configuration.startupSection(this.#section).get(name)) {
      this.#programs.set(name, this.#begin(name, command))
      return
    }
    this.#log.warn('A query server command that was set at run time is ignored.', {
      setting: `${this.#section}/${name}`,
    })
  }
}
