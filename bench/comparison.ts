/**
 * Measures workloads on several servers in one run. The servers take turns in short rounds, each round in the opposite
 * order of the one before, so that whatever else the machine does falls on all of them alike.
 */
import { BenchDatabase } from './bench-database.ts'
import type { Limit, LimitMeasure, RunningLimit } from './limits.ts'
import { type Drive, drive, type Load } from './load.ts'
import { highest, MemoryWatch, type PeakMemory } from './peak-memory.ts'
import { processorSeconds } from './process-use.ts'
import type { RunningServer } from './servers.ts'
import type { Workload } from './workloads.ts'

export interface ComparisonOptions {
  readonly rounds: number
  readonly roundMs: number
  /** No round begins after so long, once there are two: what takes long is measured less often. */
  readonly workloadMs: number
}

/** What was measured of one server, or why nothing was. */
export interface Figures {
  readonly name: string
  /** The units a second of each round. */
  readonly rounds: number[]
  /** The processor time that the server used for a unit, in each round; empty where that is not known. */
  readonly processorUs: number[]
  /** How long each unit took, of all rounds; empty where that was not the question. */
  readonly latenciesMs: number[]
  /** Of all rounds and of what came before them; missing where it is not known. */
  memory?: PeakMemory
  failure?: string
}

export interface WorkloadResult {
  readonly workload: Workload
  /** In the order of the servers. */
  readonly servers: readonly Figures[]
  /** In the order of the workload's limits. */
  readonly limits: readonly Figures[]
  /** The most of a core that the generator used where it had many connections. */
  readonly generatorShare: number
}

type RoundMeasure = LimitMeasure & {
  readonly processorUs?: number | undefined
  readonly latenciesMs?: readonly number[]
}

/** One that takes part in the rounds. */
interface Contender {
  readonly figures: Figures
  run(durationMs: number): Promise<RoundMeasure>
  end(): Promise<void>
}

/** Long enough for V8 to have compiled what is used. */
const WARM_UP_MS = 2000
const FEWEST_ROUNDS = 2

export async function compare(
  workload: Workload,
  servers: readonly RunningServer[],
  { rounds, roundMs, workloadMs }: ComparisonOptions,
): Promise<WorkloadResult> {
  const contenders: Contender[] = []
  for (const server of servers) contenders.push(await serverContender(workload, server))
  const limits: Contender[] = []
  for (const limit of workload.limits ?? []) limits.push(await limitContender(limit))
  const all = [...contenders, ...limits]
  let generatorShare = 0
  const begunMs = performance.now()
  for (const contender of all) await attempt(contender, WARM_UP_MS)
  for (let round = 0; round < rounds; round++) {
    if (round >= FEWEST_ROUNDS && performance.now() - begunMs > workloadMs) break
    for (const contender of round % 2 === 0 ? all : all.toReversed()) {
      const measure = await attempt(contender, roundMs)
      if (!measure) continue
      contender.figures.rounds.push(measure.unitsPerSecond)
      if (measure.processorUs !== undefined) contender.figures.processorUs.push(measure.processorUs)
      for (const each of measure.latenciesMs ?? []) contender.figures.latenciesMs.push(each)
      generatorShare = Math.max(generatorShare, measure.generatorShare ?? 0)
    }
  }
  for (const contender of all) await contender.end().catch(() => {})
  const figuresOf = (some: readonly Contender[]) => some.map(({ figures }) => figures)
  return { workload, servers: figuresOf(contenders), limits: figuresOf(limits), generatorShare }
}

export function median(figures: readonly number[]): number {
  const sorted = figures.toSorted((a, b) => a - b)
  const middle = Math.floor(sorted.length / 2)
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2
}

/** The figure that a share of them does not exceed. */
export function percentile(figures: readonly number[], share: number): number {
  const sorted = figures.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))]!
}

/** The median of the ratios of each round: the two figures of a round were taken within seconds of each other. */
export function ratio(figures: Figures, other: Figures): number | undefined {
  if (figures.failure !== undefined || other.failure !== undefined) return undefined
  return median(figures.rounds.map((rate, round) => rate / other.rounds[round]!))
}

async function serverContender(workload: Workload, server: RunningServer): Promise<Contender> {
  const database = new BenchDatabase(server.url, `settle-bench-${process.pid}-${workload.name}`)
  const figures: Figures = { name: server.name, rounds: [], processorUs: [], latenciesMs: [] }
  const end = () => database.drop()
  try {
    await database.create()
    await watched(server, figures, () => workload.prepare(database))
    const load = await workload.run(database)
    const endAll = async () => {
      if ('drive' in load) await load.end?.()
      await end()
    }
    const run = (durationMs: number) => measuredRound(server, database, load, durationMs)
    return { figures, run: (durationMs) => watched(server, figures, () => run(durationMs)), end: endAll }
  } catch (error) {
    figures.failure = reasonOf(error)
    return { figures, run: () => Promise.reject(error), end }
  }
}

/** Notes how much memory the server holds meanwhile. */
async function watched<T>(server: RunningServer, figures: Figures, work: () => Promise<T>): Promise<T> {
  if (!server.process || process.platform !== 'linux') return work()
  const watch = new MemoryWatch(server.process.pid)
  try {
    return await work()
  } finally {
    const peak = watch.stop()
    figures.memory = figures.memory ? highest(figures.memory, peak) : peak
  }
}

async function measuredRound(
  server: RunningServer,
  database: BenchDatabase,
  load: Load | Drive,
  durationMs: number,
): Promise<RoundMeasure> {
  const secondsBefore = usedSeconds(server)
  const measure = 'drive' in load ? await load.drive(durationMs) : await drive(database.server, load, durationMs)
  const secondsAfter = usedSeconds(server)
  if (secondsBefore === undefined || secondsAfter === undefined) return measure
  return { ...measure, processorUs: ((secondsAfter - secondsBefore) * 1e6) / measure.units }
}

function usedSeconds({ process: child }: RunningServer): number | undefined {
  return child && process.platform === 'linux' ? processorSeconds(child.pid) : undefined
}

async function limitContender(limit: Limit): Promise<Contender> {
  const figures: Figures = { name: limit.name, rounds: [], processorUs: [], latenciesMs: [] }
  try {
    const running = await limit.start()
    return { figures, run: (durationMs) => limitRound(running, durationMs), end: running.stop }
  } catch (error) {
    figures.failure = reasonOf(error)
    return { figures, run: () => Promise.reject(error), end: async () => {} }
  }
}

async function limitRound({ run, pid }: RunningLimit, durationMs: number): Promise<RoundMeasure> {
  if (pid === undefined || process.platform !== 'linux') return run(durationMs)
  const secondsBefore = processorSeconds(pid)
  const measure = await run(durationMs)
  if (measure.units === undefined) return measure
  return { ...measure, processorUs: ((processorSeconds(pid) - secondsBefore) * 1e6) / measure.units }
}

/** One that failed once is left out of the rest of the workload; the others go on. */
async function attempt({ figures, run }: Contender, durationMs: number): Promise<RoundMeasure | undefined> {
  if (figures.failure !== undefined) return undefined
  try {
    return await run(durationMs)
  } catch (error) {
    figures.failure = reasonOf(error)
    return undefined
  }
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
