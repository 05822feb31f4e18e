/** `_prometheus`: the statistics in the text format that Prometheus reads, and what the process takes. */
import type { Histogram } from '../../runtime/histogram.ts'
import type { Statistics } from '../../runtime/statistics.ts'

export const PROMETHEUS_TYPE = 'text/plain; version=0.0.4; charset=utf-8'

/** Sections whose members are values of one label. */
const LABELS: ReadonlyMap<string, { readonly metric: string; readonly label: string; readonly help: string }> = new Map(
  [
    [
      'httpd_request_methods',
      { metric: 'httpd_request_methods_total', label: 'method', help: 'number of HTTP requests' },
    ],
    ['httpd_status_codes', { metric: 'httpd_status_codes_total', label: 'code', help: 'number of HTTP responses' }],
  ],
)

/** Those that go down too. */
const GAUGES: ReadonlySet<string> = new Set(['open_databases', 'open_os_files', 'clients_requesting_changes'])

export function prometheusText(statistics: Statistics): string {
  statistics.flush()
  const lines: string[] = []
  for (const [section, members] of Object.entries(statistics.all(0))) {
    const labelled = LABELS.get(section)
    if (labelled) {
      lines.push(...heading(labelled.metric, 'counter', labelled.help))
      for (const [name, { current }] of Object.entries(members)) {
        lines.push(`settle_${labelled.metric}{${labelled.label}="${name}"} ${current ?? 0}`)
      }
      continue
    }
    for (const [name, { description, current, mean, max }] of Object.entries(members)) {
      const prefix = section === 'service' ? '' : `${section}_`
      if (name === 'request_time') {
        lines.push(...single('request_time_mean_milliseconds', 'gauge', description, mean))
        lines.push(...single('request_time_max_milliseconds', 'gauge', description, max))
        lines.push(...durations('request_duration_seconds', statistics.histogram(section, name)))
      } else if (GAUGES.has(name)) lines.push(...single(`${prefix}${name}`, 'gauge', description, current))
      else lines.push(...single(`${prefix}${name}_total`, 'counter', description, current))
    }
  }
  return `${[...lines, ...processLines()].join('\n')}\n`
}

function processLines(): string[] {
  const { rss, heapUsed } = process.memoryUsage()
  const { user, system } = process.cpuUsage()
  return [
    ...single('uptime_seconds', 'gauge', 'seconds since the server was started', Math.floor(process.uptime())),
    ...single('resident_memory_bytes', 'gauge', 'resident memory of the server process', rss),
    ...single('heap_used_bytes', 'gauge', 'JavaScript heap in use', heapUsed),
    ...single('cpu_seconds_total', 'counter', 'processor time of the server process', (user + system) / 1e6),
  ]
}

/** A bound is four times the one before. */
const BUCKETS_APART = 8

function durations(name: string, histogram: Histogram): string[] {
  const lines = heading(name, 'histogram', 'length of a request inside the server, in seconds')
  for (const [boundMs, count] of histogram.cumulative(BUCKETS_APART)) {
    lines.push(`settle_${name}_bucket{le="${Number((boundMs / 1000).toPrecision(6))}"} ${count}`)
  }
  lines.push(`settle_${name}_bucket{le="+Inf"} ${histogram.count}`)
  lines.push(`settle_${name}_sum ${histogram.sum / 1000}`, `settle_${name}_count ${histogram.count}`)
  return lines
}

function single(name: string, type: 'counter' | 'gauge', help: string, value: number | null): string[] {
  return [...heading(name, type, help), `settle_${name} ${value ?? 0}`]
}

function heading(name: string, type: 'counter' | 'gauge' | 'histogram', help: string): string[] {
  return [`# HELP settle_${name} ${help}`, `# TYPE settle_${name} ${type}`]
}
