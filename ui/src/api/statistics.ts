/** What the server counts, and the tasks it is at. */
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
