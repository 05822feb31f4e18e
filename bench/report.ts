/** Results as people read them, ratios first, and as programs do. */
import { type Figures, median, percentile, ratio, type WorkloadResult } from './comparison.ts'
import type { MachineFacts } from './machine.ts'

export function printReport(results: readonly WorkloadResult[], facts: MachineFacts): void {
  printServers(results)
  printLimits(results)
  printLatencies(results)
  printProcessorTimes(results)
  printMemory(results)
  printBodyTimes(results)
  printFailures(results)
  const share = Math.max(...results.map(({ generatorShare }) => generatorShare))
  console.log()
  for (const fact of facts) console.log(fact)
  if (share > 0) console.log(`the load generator used up to ${percent(share)} of a core where it had many connections`)
}

export function toJson(results: readonly WorkloadResult[], facts: MachineFacts): string {
  const workloads = results.map(({ workload, servers, limits }) => ({
    name: workload.name,
    unit: `${workload.unit}/s`,
    aim: workload.aim,
    servers: servers.map((figures) => ({ ...summary(figures), ratio: ratio(servers[0]!, figures) })),
    limits: limits.map((limit, i) => ({
      ...summary(limit),
      share: ratio(servers[0]!, limit),
      aim: workload.limits?.[i]?.share,
    })),
  }))
  return `${JSON.stringify({ date: new Date().toISOString(), facts, workloads }, undefined, 2)}\n`
}

export function printTable(head: readonly string[], rows: readonly (readonly string[])[]): void {
  const widths = head.map((title, column) => Math.max(title.length, ...rows.map((row) => row[column]!.length)))
  const line = (cells: readonly string[]) =>
    cells.map((cell, column) => (column === 0 ? cell.padEnd(widths[0]!) : cell.padStart(widths[column]!))).join('  ')
  console.log(line(head).trimEnd())
  console.log('-'.repeat(widths.reduce((sum, width) => sum + width + 2, -2)))
  for (const row of rows) console.log(line(row).trimEnd())
}

export function count(value: number): string {
  return (value < 100 ? Number(value.toPrecision(3)) : Math.round(value)).toLocaleString('en')
}

export function percent(share: number): string {
  return `${(share * 100).toFixed(0)} %`
}

/** The aims are set against the first peer. */
function printServers(results: readonly WorkloadResult[]): void {
  const names = results[0]!.servers.map(({ name }) => name)
  const [own = '', ...peers] = names
  const head = ['', ...peers.map((peer) => `${own} / ${peer}`), 'aim', '', ...names, 'per second']
  const rows = results.map(({ workload, servers }) => {
    const ratios = servers.slice(1).map((peer) => ratio(servers[0]!, peer))
    const { aim } = workload
    return [
      workload.title,
      ...ratios.map((value) => (value === undefined ? '-' : times(value))),
      aim === undefined || peers.length === 0 ? '' : times(aim),
      verdict(ratios[0], aim),
      ...servers.map(rateText),
      workload.unit,
    ]
  })
  console.log()
  printTable(head, rows)
}

function printLimits(results: readonly WorkloadResult[]): void {
  const rows = results.flatMap(({ workload, servers, limits }) =>
    limits.map((limit, i) => {
      const reached = ratio(servers[0]!, limit)
      const aim = workload.limits?.[i]?.share
      return [
        `${workload.name}: ${limit.name}`,
        reached === undefined ? '-' : percent(reached),
        aim === undefined ? '' : percent(aim),
        verdict(reached, aim),
        rateText(servers[0]!),
        rateText(limit),
        workload.unit,
      ]
    }),
  )
  if (rows.length === 0) return
  console.log()
  printTable(['limits', 'reached', 'aim', '', results[0]!.servers[0]!.name, 'limit', 'per second'], rows)
}

function printLatencies(results: readonly WorkloadResult[]): void {
  // How long a unit of a limit takes tells something where one is asked for after the other.
  const isAsked = ({ servers }: WorkloadResult) => servers.some(({ latenciesMs }) => latenciesMs.length > 0)
  const rows = results
    .filter(isAsked)
    .flatMap(({ workload, servers, limits }) =>
      [...servers, ...limits]
        .filter(({ latenciesMs }) => latenciesMs.length > 0)
        .map(({ name, latenciesMs }) => [
          `${workload.name}: ${name}`,
          ...[0.5, 0.99].map((share) => percentile(latenciesMs, share).toFixed(2)),
          String(latenciesMs.length),
        ]),
    )
  if (rows.length === 0) return
  console.log()
  printTable(['milliseconds', 'p50', 'p99', 'of'], rows)
}

/** These depend less than the rates on what else the machine does meanwhile. */
function printProcessorTimes(results: readonly WorkloadResult[]): void {
  const isKnown = ({ processorUs }: Figures) => processorUs.length > 0
  const names = new Set(results.flatMap(({ servers }) => servers.filter(isKnown).map(({ name }) => name)))
  const measured = results
    .map(({ workload, servers }) => ({ workload, servers: servers.filter(isKnown) }))
    .filter(({ servers }) => servers.length === names.size)
  if (names.size === 0 || measured.length === 0) return
  const [own = '', ...peers] = names
  const rows = measured.map(({ workload, servers }) => {
    const [ownUs = 0, ...peersUs] = servers.map(({ processorUs }) => median(processorUs))
    return [workload.title, ...peersUs.map((us) => times(us / ownUs)), ...[ownUs, ...peersUs].map(count), workload.unit]
  })
  console.log()
  printTable(['processor time', ...peers.map((peer) => `${peer} / ${own}`), own, ...peers, 'µs for each of the'], rows)
}

/** What a server may use of a processor for large bodies, in times of what the limit uses. */
const BODY_AIM = 2.5

/** Large bodies beside a server that does nothing else with them. */
function printBodyTimes(results: readonly WorkloadResult[]): void {
  const rows = results.flatMap(({ workload: { title, bodyBytes }, servers: [own], limits }) => {
    const limit = limits.at(-1)
    if (bodyBytes === undefined || !own?.processorUs.length || !limit?.processorUs.length) return []
    const secondsPerGigabyte = (figures: Figures) => (median(figures.processorUs) / bodyBytes) * 1000
    const [ours, theirs] = [secondsPerGigabyte(own), secondsPerGigabyte(limit)]
    return [
      [title, times(ours / theirs), times(BODY_AIM), verdict(theirs / ours, 1 / BODY_AIM), count(ours), count(theirs)],
    ]
  })
  if (rows.length === 0) return
  console.log()
  const name = results[0]!.servers[0]!.name
  printTable(['large bodies', `${name} / limit`, 'at most', '', name, 'limit, processor seconds a GB'], rows)
}

/** Servers go from one workload to the next: what one of them leaves is there in those that follow. */
function printMemory(results: readonly WorkloadResult[]): void {
  const rows = results.flatMap(({ workload, servers }) =>
    servers.flatMap(({ name, memory }) =>
      memory
        ? [
            [
              `${workload.name}: ${name}`,
              ...[memory.ownBytes, memory.childrenBytes, memory.residentBytes].map(megabytes),
            ],
          ]
        : [],
    ),
  )
  if (rows.length === 0) return
  console.log()
  printTable(['peak of memory, MB', 'private', 'of its children', 'resident, with mapped files'], rows)
}

function megabytes(bytes: number): string {
  return (bytes / 1e6).toFixed(0)
}

function printFailures(results: readonly WorkloadResult[]): void {
  for (const { workload, servers, limits } of results) {
    for (const { name, failure } of [...servers, ...limits]) {
      if (failure !== undefined) console.log(`\n${workload.name} failed on ${name}: ${failure}`)
    }
  }
}

function verdict(value: number | undefined, aim: number | undefined): string {
  if (value === undefined || aim === undefined) return ''
  return value >= aim ? 'reached' : 'missed'
}

function rateText({ rounds, failure }: Figures): string {
  return failure === undefined ? count(median(rounds)) : 'failed'
}

function summary({ rounds, latenciesMs, ...figures }: Figures) {
  const latencies = latenciesMs.length > 0 && {
    p50Ms: percentile(latenciesMs, 0.5),
    p99Ms: percentile(latenciesMs, 0.99),
  }
  return { ...figures, ...latencies, median: rounds.length > 0 ? median(rounds) : undefined, rounds }
}

function times(value: number): string {
  return `${value < 10 ? value.toFixed(1) : value.toFixed(0)}x`
}
