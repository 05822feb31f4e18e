/**
 * The metrics of the server, in the model of Prometheus: counters, gauges that are read on demand, and histograms of
 * durations. Names and labels are looked up once, when a metric is registered.
 */

import { DurationHistogram, type Durations, MetricCounter } from './instruments.ts'

export type Labels = Readonly<Record<string, string>>

/** One number, or one for each set of labels. */
export type Reading = number | Iterable<readonly [Labels, number]>

interface Family<T> {
  readonly help: string
  readonly members: Map<string, { readonly labels: Labels; readonly member: T }>
}

interface Read {
  readonly help: string
  readonly type: 'gauge' | 'counter'
  read(): Reading
}

/** What one node of several has measured. */
export interface MetricsReport {
  /** Since the last report. */
  readonly counters: readonly { name: string; help: string; labels: Labels; value: number }[]
  readonly histograms: readonly { name: string; help: string; labels: Labels; durations: Durations }[]
  /** As of now. */
  readonly read: readonly { name: string; readings: (readonly [Labels, number])[] }[]
}

/** All metrics of a server. What is registered under a name that is known is the same one. */
export class Metrics {
  readonly #counters = new Map<string, Family<MetricCounter>>()
  readonly #histograms = new Map<string, Family<DurationHistogram>>()
  readonly #read = new Map<string, Read>()
  /** What other nodes read last. */
  readonly #elsewhere = new Map<object, ReadonlyMap<string, (readonly [Labels, number])[]>>()
  /** Of nodes that are gone, where it only grows. */
  readonly #departed = new Map<string, (readonly [Labels, number])[]>()

  counter(name: string, help: string, labels: Labels = {}): MetricCounter {
    return member(this.#counters, name, help, labels, () => new MetricCounter())
  }

  histogram(name: string, help: string, labels: Labels = {}): DurationHistogram {
    return member(this.#histograms, name, help, labels, () => new DurationHistogram())
  }

  /** A number that is read on demand. Replaces the one of the same name: a restart registers gauges again. */
  gauge(name: string, help: string, read: () => Reading): void {
    this.#read.set(name, { help, type: 'gauge', read })
  }

  /** The same for a number that only grows. */
  total(name: string, help: string, read: () => Reading): void {
    this.#read.set(name, { help, type: 'counter', read })
  }

  /** For a node whose metrics another one shows. What was counted is taken out. */
  report(): MetricsReport {
    const counters = [...this.#counters].flatMap(([name, { help, members }]) =>
      [...members.values()].map(({ labels, member }) => ({ name, help, labels, value: member.take() })),
    )
    const histograms = [...this.#histograms].flatMap(([name, { help, members }]) =>
      [...members.values()].map(({ labels, member }) => ({ name, help, labels, durations: member.take() })),
    )
    const read = [...this.#read].map(([name, each]) => ({ name, readings: readingsOf(each.read()) }))
    return {
      counters: counters.filter(({ value }) => value > 0),
      histograms: histograms.filter(({ durations }) => durations.count > 0),
      read,
    }
  }

  /** Takes over what another node has measured. */
  merge(node: object, { counters, histograms, read }: MetricsReport): void {
    for (const { name, help, labels, value } of counters) this.counter(name, help, labels).add(value)
    for (const { name, help, labels, durations } of histograms) this.histogram(name, help, labels).merge(durations)
    this.#elsewhere.set(node, new Map(read.map(({ name, readings }) => [name, readings])))
  }

  /** A node is gone: what only grows does not shrink by that. */
  forget(node: object): void {
    for (const [name, readings] of this.#elsewhere.get(node) ?? []) {
      if (this.#read.get(name)?.type === 'counter') {
        // One sum for each label: nodes may come and go for years.
        this.#departed.set(name, [...summed([...(this.#departed.get(name) ?? []), ...readings])])
      }
    }
    this.#elsewhere.delete(node)
  }

  /** What all nodes read together. */
  #readings(name: string, own: Reading): Reading {
    const others = [...this.#elsewhere.values()].flatMap((read) => read.get(name) ?? [])
    const all = [...others, ...(this.#departed.get(name) ?? [])]
    if (all.length === 0) return own
    return summed([...readingsOf(own), ...all])
  }

  /** In the text format of Prometheus. */
  *lines(): Generator<string> {
    for (const [name, { help, members }] of this.#counters) {
      yield* heading(name, 'counter', help)
      for (const { labels, member } of members.values()) yield sample(name, labels, member.value)
    }
    for (const [name, { help, type, read }] of this.#read) {
      yield* heading(name, type, help)
      const reading = this.#readings(name, read())
      if (typeof reading === 'number') yield sample(name, {}, reading)
      else for (const [labels, value] of reading) yield sample(name, labels, value)
    }
    for (const [name, { help, members }] of this.#histograms) {
      yield* heading(name, 'histogram', help)
      for (const { labels, member } of members.values()) yield* histogramLines(name, labels, member)
    }
  }
}

/** By their labels. */
function summed(readings: Iterable<readonly [Labels, number]>): Iterable<readonly [Labels, number]> {
  const sums = new Map<string, readonly [Labels, number]>()
  for (const [labels, value] of readings) {
    const key = JSON.stringify(labels)
    sums.set(key, [labels, (sums.get(key)?.[1] ?? 0) + value])
  }
  return sums.values()
}

function readingsOf(reading: Reading): (readonly [Labels, number])[] {
  return typeof reading === 'number' ? [[{}, reading]] : [...reading]
}

function member<T>(families: Map<string, Family<T>>, name: string, help: string, labels: Labels, make: () => T): T {
  let family = families.get(name)
  if (!family) {
    family = { help, members: new Map() }
    families.set(name, family)
  }
  const key = labelText(labels)
  const known = family.members.get(key)
  if (known) return known.member
  const made = make()
  family.members.set(key, { labels, member: made })
  return made
}

function* histogramLines(name: string, labels: Labels, histogram: DurationHistogram): Generator<string> {
  for (const [bound, count] of histogram.cumulative()) {
    yield sample(`${name}_bucket`, { ...labels, le: String(Number(bound.toPrecision(6))) }, count)
  }
  yield sample(`${name}_bucket`, { ...labels, le: '+Inf' }, histogram.count)
  yield sample(`${name}_sum`, labels, histogram.sumSeconds)
  yield sample(`${name}_count`, labels, histogram.count)
}

export function* heading(name: string, type: 'counter' | 'gauge' | 'histogram' | 'summary', help: string) {
  yield `# HELP ${name} ${help}`
  yield `# TYPE ${name} ${type}`
}

export function sample(name: string, labels: Labels, value: number): string {
  return `${name}${labelText(labels)} ${value}`
}

function labelText(labels: Labels): string {
  const texts = Object.entries(labels).map(([name, value]) => `${name}="${escaped(value)}"`)
  return texts.length === 0 ? '' : `{${texts.join(',')}}`
}

function escaped(value: string): string {
  return value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n')
}
