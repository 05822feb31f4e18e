/**
 * Figures of several servers under one load, in alternating rounds: how much they did in a second, and what they, PostgreSQL
 * and the load generator used of the processors for it. Where all processors are in use the rates say little: then what a
 * second of processor time gives is the figure to look at.
 */
import { BenchDatabase } from './bench-database.ts'
import { median } from './comparison.ts'
import type { CompiledGenerator } from './compiled-generator.ts'
import { drive, type Load } from './load.ts'
import type { NodeLoad } from './node-loads.ts'
import { processesOfTree, processorSeconds, processorSecondsOfTree } from './process-use.ts'
import { count } from './report.ts'

/** One or several servers over the same databases. */
export interface Contender {
  readonly name: string
  /** Of each server that clients connect to. */
  readonly urls: readonly string[]
  /** Of each process that was started; what these started counts too. */
  readonly pids: readonly number[]
  /** Of the PostgreSQL that it uses. */
  readonly postgresPid?: number | undefined
}

export interface Figures {
  readonly rates: number[]
  /** Units for each second of processor time: of the servers, and of them and PostgreSQL. */
  readonly perServerSecond: number[]
  readonly perSecondOfAll: number[]
  /** In cores. */
  readonly servers: number[]
  readonly busiest: number[]
  readonly postgres: number[]
  readonly generator: number[]
  failure?: string
}

export interface MeasureOptions {
  readonly rounds: number
  readonly roundMs: number
  readonly documents: number
  /** After this time no further round begins, once there are two. */
  readonly longestMs: number
  /** Each process is loaded for so many seconds of its processor time before, within so many milliseconds. */
  readonly warmSeconds: number
  readonly warmMs: number
  /** For the loads that it can make, where there is one. */
  readonly generator: CompiledGenerator | undefined
}

const FEWEST_ROUNDS = 2
const WARMING_MS = 500

export async function measure(
  bench: NodeLoad,
  contenders: readonly Contender[],
  options: MeasureOptions,
): Promise<Figures[]> {
  const begunMs = performance.now()
  const figures = contenders.map((): Figures => ({ ...EMPTY() }))
  const loads: (Load | undefined)[] = []
  for (const [i, contender] of contenders.entries()) {
    loads.push(await guarded(figures[i]!, () => bench.load(contender.urls[0]!, options.documents)))
    await guarded(figures[i]!, () => warmUp(contender, warming(bench, loads[i]!), options))
  }
  for (let round = 0; round < options.rounds; round++) {
    if (round >= FEWEST_ROUNDS && performance.now() - begunMs > options.longestMs) break
    const order = [...contenders.entries()]
    for (const [i, contender] of round % 2 === 0 ? order : order.reverse()) {
      await guarded(figures[i]!, () => measureRound(contender, loads[i]!, options, figures[i]!))
    }
  }
  return figures
}

const EMPTY = () => ({
  rates: [],
  perServerSecond: [],
  perSecondOfAll: [],
  servers: [],
  busiest: [],
  postgres: [],
  generator: [],
})

/** The median of the ratios of each round: the two figures of a round were taken within seconds of each other. */
export function ratioOf(some: readonly number[], first: readonly number[]): number | undefined {
  const ratios = some.map((each, round) => each / (first[round] ?? Number.NaN)).filter((each) => Number.isFinite(each))
  return ratios.length === 0 ? undefined : median(ratios)
}

/** What the rates would be if the busiest process had a core to itself. */
export function atFullCore({ rates, busiest }: Figures): number[] {
  return rates.map((rate, round) => rate / busiest[round]!)
}

export const HEAD = [
  'rate',
  'with free cores',
  'per second',
  'per processor second of servers',
  'of servers and PostgreSQL',
  'servers',
  'busiest process',
  'PostgreSQL',
  'generator, cores',
]

export function rowOf(own: Figures, first: Figures): string[] {
  if (own.failure !== undefined || own.rates.length === 0) return ['failed', ...HEAD.slice(1).map(() => '')]
  const times = (value: number | undefined) => (value === undefined ? '-' : `${value.toFixed(2)}×`)
  const cores = (some: readonly number[]) => median(some).toFixed(2)
  return [
    times(ratioOf(own.rates, first.rates)),
    times(ratioOf(atFullCore(own), atFullCore(first))),
    count(median(own.rates)),
    count(median(own.perServerSecond)),
    count(median(own.perSecondOfAll)),
    cores(own.servers),
    cores(own.busiest),
    cores(own.postgres),
    cores(own.generator),
  ]
}

function addressesOf({ urls }: Contender) {
  return urls.map((url) => new BenchDatabase(url, '').server)
}

function processesOf({ pids }: Contender): Map<number, number> {
  const all = pids.flatMap(processesOfTree)
  return new Map(all.map((pid) => [pid, secondsOf(pid)]))
}

/** It may have ended meanwhile. */
function secondsOf(pid: number): number {
  try {
    return processorSeconds(pid)
  } catch {
    return 0
  }
}

function warming({ warmConnections }: NodeLoad, load: Load): Load {
  return { ...load, connections: warmConnections ?? load.connections, verify: async () => {} }
}

/** Each process compiles what it runs often. One that is new to a load takes two or three times as long for each request. */
async function warmUp(contender: Contender, load: Load, options: MeasureOptions): Promise<void> {
  const { warmSeconds, warmMs } = options
  const before = processesOf(contender)
  const endMs = performance.now() + warmMs
  while (performance.now() < endMs) {
    await driven(contender, load, WARMING_MS, options)
    // Supervisors do nothing.
    const worked = [...processesOf(contender)]
      .map(([pid, seconds]) => seconds - (before.get(pid) ?? 0))
      .filter((seconds) => seconds > 0.1)
    if (worked.length > 0 && Math.min(...worked) >= warmSeconds) return
  }
}

interface Driven {
  readonly units: number
  readonly unitsPerSecond: number
  /** Of processors. */
  readonly generatorSeconds: number
}

async function driven(
  contender: Contender,
  load: Load,
  durationMs: number,
  { generator }: MeasureOptions,
): Promise<Driven> {
  const before = process.cpuUsage()
  const ownSeconds = () => {
    const { user, system } = process.cpuUsage(before)
    return (user + system) / 1e6
  }
  if (!generator || !load.numbered) {
    const { units, unitsPerSecond } = await drive(addressesOf(contender), load, durationMs)
    return { units, unitsPerSecond, generatorSeconds: ownSeconds() }
  }
  const { requests, seconds, processorSeconds } = await generator.drive(addressesOf(contender), load.numbered, {
    connections: load.connections,
    durationMs,
  })
  await load.verify?.()
  const generatorSeconds = processorSeconds + ownSeconds()
  return { units: requests, unitsPerSecond: requests / seconds, generatorSeconds }
}

async function measureRound(
  contender: Contender,
  load: Load,
  options: MeasureOptions,
  figures: Figures,
): Promise<void> {
  const { postgresPid } = contender
  const postgresSeconds = () => (postgresPid === undefined ? 0 : processorSecondsOfTree(postgresPid))
  const before = processesOf(contender)
  const postgresBefore = postgresSeconds()
  const begunMs = performance.now()
  const { units, unitsPerSecond, generatorSeconds } = await driven(contender, load, options.roundMs, options)
  const elapsed = (performance.now() - begunMs) / 1000
  const worked = [...processesOf(contender)].map(([pid, seconds]) => seconds - (before.get(pid) ?? 0))
  // The clock of the system counts hundredths.
  const servers = Math.max(
    0.01,
    worked.reduce((sum, each) => sum + each, 0),
  )
  const postgres = postgresSeconds() - postgresBefore
  figures.rates.push(unitsPerSecond)
  figures.perServerSecond.push(units / servers)
  figures.perSecondOfAll.push(units / (servers + postgres))
  figures.servers.push(servers / elapsed)
  figures.busiest.push(Math.max(0.01, ...worked) / elapsed)
  figures.postgres.push(postgres / elapsed)
  figures.generator.push(generatorSeconds / elapsed)
}

/** One that failed once is left out of the rest of the load; the others go on. */
async function guarded<T>(figures: Figures, work: () => Promise<T>): Promise<T | undefined> {
  if (figures.failure !== undefined) return undefined
  try {
    return await work()
  } catch (error) {
    figures.failure = error instanceof Error ? error.message : String(error)
    return undefined
  }
}
