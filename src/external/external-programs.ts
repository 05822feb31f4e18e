/**
 * The programs that the configuration has running beside the server: `[os_daemons]`, those of `[update_notification]`,
 * which hear what happens to databases, and those of `[external]`, which answer requests.
 */
import type { Configuration, SettingChange } from '../config/configuration.ts'
import type { Databases } from '../database/databases.ts'
import type { Clock } from '../runtime/clock.ts'
import type { Log } from '../runtime/log/log.ts'
import { KeptProcess, type RetryLimits } from '../runtime/processes/kept-process.ts'
import { ExternalHandler } from './external-handler.ts'
import { OsDaemon } from './os-daemon.ts'
import { ProgramSection } from './program-section.ts'

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
  readonly #subscriptions: (() => void)[]

  constructor({ configuration, databases, clock, log }: ExternalSurroundings) {
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
    this.#subscriptions = [
      configuration.onChange((change) => this.#follow(change)),
      databases.onEvent((event) => {
        for (const program of this.#notified) program.send(event)
      }),
    ]
  }

  /** The program that answers requests under this name. */
  handler(name: string): ExternalHandler | undefined {
    return this.#handlers.get(name)
  }

  /** Resolves when all are gone. */
  async close(): Promise<void> {
    for (const end of this.#subscriptions) end()
    await Promise.all([this.#daemons.stop(), this.#notified.stop(), this.#handlers.stop()])
  }

  async #follow(change: SettingChange): Promise<void> {
    await this.#notified.follow(change)
    await this.#handlers.follow(change)
    // First those that asked: one that begins now has seen the change.
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
