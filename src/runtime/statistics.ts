/**
 * What the server counts. Counting is an addition; once a tick the additions become samples, of which sums, means and
 * deviations are kept from the start and over windows of time. Memory is bounded: a window keeps so many samples at
 * most.
 */

import { type Counter, Histogram, Meter } from './instruments.ts'
import { NO_SAMPLES, Samples, type Summary } from './samples.ts'

export interface StatisticsSettings {
  /** The time between two samples. */
  readonly rateMs: number
  /** The windows that can be asked for; 0 is everything since the start. */
  readonly windowsSeconds: readonly number[]
}

export type Statistic = Summary & { readonly description: string }
export type StatisticSection = Readonly<Record<string, Statistic>>

/** What was counted since it was last asked for. */
export interface StatisticIncrement {
  readonly section: string
  readonly name: string
  readonly added: number
  /** How much of that goes again when what is counted goes. */
  readonly present: number
  readonly observed: readonly number[]
}

export class Statistics {
  readonly #gauges: { readonly meter: Meter; read(): number; last: number }[] = []
  /** How many there are of those that come and go. */
  readonly #present = new Map<Counter, number>()
  /** The same of other nodes. */
  readonly #presentElsewhere = new Map<object, Map<Counter, number>>()
  readonly #meters: ReadonlyMap<string, ReadonlyMap<string, Meter>>
  readonly #isTaken: boolean
  #settings: StatisticsSettings
  #timer: NodeJS.Timeout | undefined

  /** `isTaken` if another node keeps the counts: see `takeIncrements`. */
  constructor(settings: StatisticsSettings, { isTaken = false }: { readonly isTaken?: boolean } = {}) {
    this.#settings = settings
    this.#isTaken = isTaken
    this.#meters = newMeters(settings, isTaken)
    this.#tick()
  }

  /** An unknown statistic is not counted. The counter stays valid after `restart`. */
  counter(section: string, name: string): Counter {
    return this.#meters.get(section)?.get(name) ?? NOT_COUNTED
  }

  increment(section: string, name: string, by = 1): void {
    this.counter(section, name).add(by)
  }

  /**
   * Counts something that comes and goes: returns the function to call when it goes. What is present is counted again
   * after `restart`.
   */
  enter(section: string, name: string): () => void {
    const counter = this.counter(section, name)
    const change = (by: number) => {
      this.#present.set(counter, (this.#present.get(counter) ?? 0) + by)
      counter.add(by)
    }
    change(1)
    return () => change(-1)
  }

  observe(section: string, name: string, value: number): void {
    this.counter(section, name).observe(value)
  }

  /** A number that is read once a tick. */
  gauge(section: string, name: string, read: () => number): void {
    const meter = this.#meters.get(section)?.get(name)
    if (meter) this.#gauges.push({ meter, read, last: 0 })
  }

  /** Takes a sample now, before its time. */
  flush(): void {
    for (const gauge of this.#gauges) {
      const value = gauge.read()
      if (value !== gauge.last) gauge.meter.add(value - gauge.last)
      gauge.last = value
    }
    for (const section of this.#meters.values()) for (const meter of section.values()) meter.sample()
  }

  /** Takes out what was counted since the last sample: for a node whose counts are kept elsewhere, and which takes no samples. */
  takeIncrements(): StatisticIncrement[] {
    const increments: StatisticIncrement[] = []
    for (const [section, meters] of this.#meters) {
      for (const [name, meter] of meters) {
        const taken = meter.take()
        if (taken) increments.push({ section, name, ...taken, present: this.#present.get(meter) ?? 0 })
      }
    }
    return increments
  }

  /** Counts what another node has counted. */
  addIncrements(node: object, increments: readonly StatisticIncrement[]): void {
    const present = this.#presentElsewhere.get(node) ?? new Map<Counter, number>()
    this.#presentElsewhere.set(node, present)
    for (const { section, name, added, present: count, observed } of increments) {
      const counter = this.counter(section, name)
      if (added !== 0) counter.add(added)
      for (const value of observed) counter.observe(value)
      present.set(counter, count)
    }
  }

  /** Another node has ended, and with it everything that came and went there. */
  forget(node: object): void {
    for (const [counter, count] of this.#presentElsewhere.get(node) ?? []) if (count !== 0) counter.add(-count)
    this.#presentElsewhere.delete(node)
  }

  /** Every statistic of every section; nothing when there is no such window. */
  all(windowSeconds: number): Record<string, StatisticSection> {
    if (!this.#hasWindow(windowSeconds)) return {}
    return Object.fromEntries(
      [...this.#meters].map(([section, meters]) => [
        section,
        Object.fromEntries([...meters.keys()].map((name) => [name, this.one(section, name, windowSeconds)])),
      ]),
    )
  }

  /** One that is not known has no description and no numbers. */
  one(section: string, name: string, windowSeconds: number): Statistic {
    const meter = this.#meters.get(section)?.get(name)
    if (!meter) return { description: '', ...NO_SAMPLES, current: null }
    const description = STATISTICS[section]?.[name] ?? ''
    return { description, ...(this.#hasWindow(windowSeconds) ? meter.summary(windowSeconds) : NO_SAMPLES) }
  }

  /** What was observed since the start, one by one; empty for what is counted. */
  histogram(section: string, name: string): Histogram {
    return this.#meters.get(section)?.get(name)?.histogram ?? new Histogram()
  }

  /** Starts again from zero. */
  restart(settings: StatisticsSettings): void {
    this.stop()
    this.#settings = settings
    for (const section of this.#meters.values())
      for (const meter of section.values()) meter.restart(newSamples(settings))
    for (const gauge of this.#gauges) gauge.last = 0
    for (const present of [this.#present, ...this.#presentElsewhere.values()]) {
      for (const [counter, count] of present) if (count > 0) counter.add(count)
    }
    this.#tick()
  }

  stop(): void {
    clearInterval(this.#timer)
  }

  #tick(): void {
    if (this.#isTaken) return
    this.#timer = setInterval(() => this.flush(), this.#settings.rateMs)
    this.#timer.unref()
  }

  #hasWindow(seconds: number): boolean {
    return seconds === 0 || this.#settings.windowsSeconds.includes(seconds)
  }
}

const NOT_COUNTED: Counter = { add() {}, observe() {} }

function newMeters(settings: StatisticsSettings, isTaken: boolean): Map<string, Map<string, Meter>> {
  return new Map(
    Object.entries(STATISTICS).map(([section, names]) => [
      section,
      new Map(Object.keys(names).map((name) => [name, new Meter(newSamples(settings), isTaken)])),
    ]),
  )
}

function newSamples({ rateMs, windowsSeconds }: StatisticsSettings): Samples {
  return new Samples(rateMs, Math.max(0, ...windowsSeconds))
}

const STATISTICS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  service: {
    auth_cache_hits: 'number of authentication cache hits',
    auth_cache_misses: 'number of authentication cache misses',
    database_reads: 'number of times a document was read from a database',
    database_writes: 'number of times a database was changed',
    open_databases: 'number of open databases',
    open_os_files: 'number of file descriptors the server has open',
    request_time: 'length of a request inside the server, in milliseconds',
  },
  httpd: {
    bulk_requests: 'number of bulk requests',
    clients_requesting_changes: 'number of clients for continuous _changes',
    requests: 'number of HTTP requests',
    temporary_view_reads: 'number of temporary view reads',
    view_reads: 'number of view reads',
  },
  httpd_request_methods: Object.fromEntries(
    ['COPY', 'DELETE', 'GET', 'HEAD', 'POST', 'PUT'].map((method) => [method, `number of HTTP ${method} requests`]),
  ),
  httpd_status_codes: {
    '200': 'number of HTTP 200 OK responses',
    '201': 'number of HTTP 201 Created responses',
    '202': 'number of HTTP 202 Accepted responses',
    '301': 'number of HTTP 301 Moved Permanently responses',
    '304': 'number of HTTP 304 Not Modified responses',
    '400': 'number of HTTP 400 Bad Request responses',
    '401': 'number of HTTP 401 Unauthorized responses',
    '403': 'number of HTTP 403 Forbidden responses',
    '404': 'number of HTTP 404 Not Found responses',
    '405': 'number of HTTP 405 Method Not Allowed responses',
    '409': 'number of HTTP 409 Conflict responses',
    '412': 'number of HTTP 412 Precondition Failed responses',
    '500': 'number of HTTP 500 Internal Server Error responses',
  },
}
