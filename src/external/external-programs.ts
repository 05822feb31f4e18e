/**
 * The programs that the configuration keeps running beside the server: `[os_daemons]`, and those of
 * `[update_notification]`, which hear what happens to databases.
 */
import type { Configuration, SettingChange } from '../config/configuration.ts'
import type { Databases } from '../database/databases.ts'
import type { Clock } from '../runtime/clock.ts'
import { KeptProcess, type RetryLimits } from '../runtime/kept-process.ts'
import type { Log } from '../runtime/log.ts'
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
  readonly #ends: (() => void)[]

  constructor({ configuration, databases, clock, log }: ExternalSurroundings) {
    const shared = { clock, log, limits: () => retryLimits(configuration) }
    this.#daemons = new ProgramSection('os_daemons', configuration, log, (name, command) => {
      return new OsDaemon(configuration, { ...shared, name: `os_daemons/${name}`, command })
    })
    this.#notified = new ProgramSection('update_notification', configuration, log, (name, command) => {
      return new KeptProcess({ ...shared, name: `update_notification/${name}`, command })
    })
    this.#ends = [
      configuration.onChange((change) => this.#follow(change)),
      databases.onEvent((event) => {
        for (const program of this.#notified) program.send(event)
      }),
    ]
  }

  /** Resolves when all are gone. */
  async close(): Promise<void> {
    for (const end of this.#ends) end()
    await Promise.all([this.#daemons.stop(), this.#notified.stop()])
  }

  async #follow(change: SettingChange): Promise<void> {
    await this.#notified.follow(change)
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
