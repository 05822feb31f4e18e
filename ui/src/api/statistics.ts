/** Statistics of the server, and its active tasks. */
import { requestJson } from './client.ts'

export interface Statistic {
  readonly description: string
  readonly current: number | null
  readonly mean: number | null
  readonly min: number | null
  readonly max: number | null
}

export type Statistics = Readonly<Record<string, Readonly<Record<string, Statistic>>>>

export function readStatistics(): Promise<Statistics> {
  return requestJson('_stats')
}

export function currentOf(statistics: Statistics, section: string, name: string): number {
  return statistics[section]?.[name]?.current ?? 0
}

/** The 50th, 95th and 99th percentile of request times. */
export interface Latencies {
  readonly requests: number
  readonly halfMs: number
  readonly mostMs: number
  readonly nearlyAllMs: number
}

interface RequestTimes {
  readonly value: { readonly n: number; readonly percentile: readonly (readonly [name: number, value: number])[] }
}

/** Since the server was started. */
export async function readLatencies(): Promise<Latencies> {
  const { value } = await requestJson<RequestTimes>('_node/_local/_stats/service/request_time')
  const percentile = new Map(value.percentile)
  const of = (name: number) => percentile.get(name) ?? 0
  return { requests: value.n, halfMs: of(50), mostMs: of(95), nearlyAllMs: of(99) }
}

export interface System {
  readonly uptime: number
  /** Absent if databases are in memory. */
  readonly disk?: { readonly free: number; readonly total: number }
}

export function readSystem(): Promise<System> {
  return requestJson('_node/_local/_system')
}

export interface ActiveTask {
  readonly type: string
  readonly pid: string
  readonly database?: string
  readonly design_document?: string
  readonly progress?: number | null
  readonly started_on?: number
  readonly updated_on?: number
  readonly source?: string
  readonly target?: string
  readonly docs_written?: number
  readonly continuous?: boolean
}

export function readTasks(): Promise<ActiveTask[]> {
  return requestJson('_active_tasks')
}
