/**
 * Purges old tombstones and deletes documents that expired, in the databases that have settings for it. Looks at them at an
 * interval, one after the other, and at once when a setting changes. Without such settings it does nothing.
 */
import type { Configuration } from '../../config/configuration.ts'
import type { Clock } from '../../runtime/clock.ts'
import type { MetricCounter } from '../../runtime/instruments.ts'
import type { Log } from '../../runtime/log/log.ts'
import type { Metrics } from '../../runtime/metrics.ts'
import { eitherSignal, type LeasesOf, leased, type WorkLease } from '../../storage/leases/work-leases.ts'
import type { Databases } from '../databases.ts'
import { expireDocuments } from './document-expiry.ts'
import { EXPIRY_SECTION, expiryFieldOf, RETENTION_SECTION, retentionOf } from './retention-settings.ts'
import { purgeTombstones } from './tombstone-retention.ts'

export interface RetentionOptions {
  readonly configuration: Pick<Configuration, 'get' | 'delete' | 'section' | 'integer' | 'onChange'>
  readonly databases: Databases
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
  /** Where other servers look at the same databases. */
  readonly leases?: LeasesOf | undefined
}

const SECTIONS: ReadonlySet<string> = new Set([RETENTION_SECTION, EXPIRY_SECTION])

export class RetentionDaemon {
  readonly #options: RetentionOptions
  readonly #closing = new AbortController()
  readonly #forget: readonly (() => void)[]
  readonly #purged: MetricCounter
  readonly #expired: MetricCounter
  #timer: NodeJS.Timeout | undefined
  #round: Promise<void> | undefined
  /** Something changed while a round was under way. */
  #isDue = false

  constructor(options: RetentionOptions) {
    this.#options = options
    const { configuration, databases, metrics } = options
    this.#purged = metrics.counter('settle_tombstones_purged_total', 'old tombstones that were purged')
    this.#expired = metrics.counter('settle_documents_expired_total', 'documents that were deleted since they expired')
    this.#forget = [
      configuration.onChange(({ section, key }) => {
        if (SECTIONS.has(section)) this.#wait(0)
        else if (section === 'retention' && key === 'check_interval') this.#wait()
      }),
      // The settings must not apply to another database of the same name.
      databases.onDeleted((name) => this.#removeSettings(name)),
    ]
    this.#wait()
  }

  /** Checks all databases that have settings, or joins the check that is running. */
  check(): Promise<void> {
    this.#round ??= this.#checkAll().finally(() => {
      this.#round = undefined
      this.#wait(this.#isDue ? 0 : undefined)
      this.#isDue = false
    })
    return this.#round
  }

  async close(): Promise<void> {
    this.#closing.abort(new Error('The server is being closed.'))
    for (const forget of this.#forget) forget()
    clearTimeout(this.#timer)
    await this.#round
  }

  #wait(delayMs = this.#intervalMs()): void {
    clearTimeout(this.#timer)
    if (this.#closing.signal.aborted || this.#names().length === 0) return
    if (this.#round) {
      this.#isDue = true
      return
    }
    this.#timer = setTimeout(() => void this.check(), delayMs)
    this.#timer.unref()
  }

  #intervalMs(): number {
    return Math.min(this.#options.configuration.integer('retention', 'check_interval') * 1000, LONGEST_TIMER_MS)
  }

  #names(): string[] {
    const { configuration } = this.#options
    return [...new Set([...SECTIONS].flatMap((section) => [...configuration.section(section).keys()]))]
  }

  async #checkAll(): Promise<void> {
    const { databases, log } = this.#options
    for (const name of this.#names()) {
      if (this.#closing.signal.aborted) return
      if (!databases.has(name)) continue
      try {
        await leased(this.#options.leases?.(name), `retention of ${name}`, (lease) => this.#check(name, lease))
      } catch (error) {
        if (this.#closing.signal.aborted || !databases.has(name)) continue
        log.error('Old tombstones or expired documents were not removed.', { database: name, error: String(error) })
      }
    }
  }

  async #check(name: string, lease: WorkLease | undefined): Promise<void> {
    const { databases, configuration, clock, log } = this.#options
    const database = (await databases.get(name)).under(lease?.proof)
    const signal = eitherSignal(this.#closing.signal, lease)
    const field = expiryFieldOf(configuration, name)
    if (field !== undefined) {
      const { expired } = await expireDocuments(database, { field, nowMs: clock.nowMs(), signal })
      this.#expired.add(expired)
      if (expired > 0) log.info('Expired documents were deleted.', { database: name, documents: expired })
    }
    const seconds = retentionOf(configuration, name)
    if (seconds === undefined) return
    const { purged } = await purgeTombstones(database, {
      retentionMs: seconds * 1000,
      nowMs: clock.nowMs(),
      intervalMs: this.#intervalMs(),
      signal,
    })
    this.#purged.add(purged)
    if (purged > 0) log.info('Old tombstones were purged.', { database: name, documents: purged })
  }

  async #removeSettings(name: string): Promise<void> {
    const { configuration, log } = this.#options
    for (const section of SECTIONS) {
      if (configuration.get(section, name) === undefined) continue
      await configuration.delete(section, name).catch((error: unknown) => {
        log.warn('A setting of a deleted database was not removed.', {
          setting: `${section}/${name}`,
          error: String(error),
        })
      })
    }
  }
}

/** A timer that is asked for more rings at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1
