/**
 * `_prometheus`: statistics and metrics in the text format that Prometheus reads. What CouchDB 3 measures has the same
 * name here, so that its dashboards work; our own metrics begin with `settle_`.
 */
import type { Histogram } from '../../runtime/instruments.ts'
import { heading, sample } from '../../runtime/metrics.ts'
import type { Statistics } from '../../runtime/statistics.ts'
import type { PrimaryContext } from '../server/context.ts'

export const PROMETHEUS_TYPE = 'text/plain; version=0.0.4; charset=utf-8'

/** Sections that become one metric with a label for each member. */
const LABELS: ReadonlyMap<string, { readonly label: string; readonly help: string }> = new Map([
  ['httpd_request_methods', { label: 'method', help: 'number of HTTP requests by method' }],
  ['httpd_status_codes', { label: 'code', help: 'number of HTTP responses by status code' }],
])

/** Those that can also decrease. */
const GAUGES: ReadonlySet<string> = new Set(['open_databases', 'open_os_files', 'clients_requesting_changes'])

export async function prometheusText({ statistics, metrics, disk }: PrimaryContext): Promise<string> {
  const space = await disk()
  const lines = [...statisticLines(statistics), ...metrics.lines(), ...processLines()]
  if (space) {
    lines.push(...single('settle_disk_free_bytes', 'gauge', 'space that the server may use', space.freeBytes))
    lines.push(...single('settle_disk_size_bytes', 'gauge', 'size of the file system of databases', space.totalBytes))
  }
  return `${lines.join('\n')}\n`
}

function* statisticLines(statistics: Statistics): Generator<string> {
  statistics.flush()
  for (const [section, members] of Object.entries(statistics.all(0))) {
    const labelled = LABELS.get(section)
    if (labelled) {
      yield* heading(`couchdb_${section}`, 'counter', labelled.help)
      for (const [name, { current }] of Object.entries(members)) {
        yield sample(`couchdb_${section}`, { [labelled.label]: name }, current ?? 0)
      }
      continue
    }
    for (const [name, { description, current }] of Object.entries(members)) {
      const full = section === 'service' ? `couchdb_${name}` : `couchdb_${section}_${name}`
      if (name === 'request_time') yield* summary('couchdb_request_time_seconds', statistics.histogram(section, name))
      else if (GAUGES.has(name)) yield* single(full, 'gauge', description, current)
      else yield* single(`${full}_total`, 'counter', description, current)
    }
  }
}

/** A quantile as release 3 names it, and where it is in the list of a histogram. */
const QUANTILES = ['0.5', '0.75', '0.9', '0.95', '0.99', '0.999']

function* summary(name: string, histogram: Histogram): Generator<string> {
  yield* heading(name, 'summary', 'length of a request inside the server')
  const { percentile } = histogram.summary()
  for (const [i, quantile] of QUANTILES.entries()) yield sample(name, { quantile }, (percentile[i]?.[1] ?? 0) / 1000)
  yield sample(`${name}_sum`, {}, histogram.sum / 1000)
  yield sample(`${name}_count`, {}, histogram.count)
}

function* processLines(): Generator<string> {
  const { rss, heapUsed, external } = process.memoryUsage()
  const { user, system } = process.cpuUsage()
  const { active } = performance.eventLoopUtilization()
  yield* single('couchdb_uptime_seconds', 'gauge', 'seconds since the server was started', Math.floor(process.uptime()))
  yield* single('settle_resident_memory_bytes', 'gauge', 'resident memory, mapped pages of files included', rss)
  yield* single('settle_heap_used_bytes', 'gauge', 'JavaScript heap in use', heapUsed)
  yield* single('settle_external_memory_bytes', 'gauge', 'memory of buffers beside the heap', external)
  yield* single('settle_cpu_seconds_total', 'counter', 'processor time of the server process', (user + system) / 1e6)
  yield* single('settle_event_loop_active_seconds_total', 'counter', 'time that the event loop worked', active / 1000)
}

function* single(name: string, type: 'counter' | 'gauge', help: string, value: number | null): Generator<string> {
  yield* heading(name, type, help)
  yield sample(name, {}, value ?? 0)
}
