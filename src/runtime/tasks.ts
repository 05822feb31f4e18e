/** The registry of active tasks. A task is listed from its start to its end. */
import type { JsonValue } from '../encoding/json/json-value.ts'
import type { Clock } from './clock.ts'
import { Metrics } from './metrics.ts'

export type TaskFields = Readonly<Record<string, JsonValue>>

/** The initial members of a task of each kind. */
export type TaskStart =
  | ((
      | { readonly type: 'database_compaction' }
      | { readonly type: 'indexer' | 'view_compaction'; readonly design_document: string }
    ) & {
      readonly database: string
      readonly changes_done: number
      readonly total_changes: number
      readonly progress: number
    })
  | ReplicationStart

export interface ReplicationStart extends TaskFields {
  readonly type: 'replication'
  readonly replication_id: string
  readonly doc_id: string | null
  readonly source: string
  readonly target: string
  readonly continuous: boolean
  /** Null if the progress is unknown. */
  readonly progress: number | null
}

export interface Task {
  /** What the list calls it. */
  readonly pid: string
  update(fields: TaskFields): void
  end(): void
}

const TASK_TYPES = ['database_compaction', 'indexer', 'replication', 'view_compaction'] as const

export class TaskRegistry {
  readonly #clock: Clock
  readonly #metrics: Metrics
  readonly #running = new Map<string, TaskFields>()
  #started = 0

  constructor(clock: Clock, metrics: Metrics = new Metrics()) {
    this.#clock = clock
    this.#metrics = metrics
    metrics.gauge('settle_tasks_running', 'compactions, index updates and replications under way', () => this.#counts())
    for (const type of TASK_TYPES) this.#durations(type)
  }

  start(fields: TaskStart): Task {
    const pid = `<0.${++this.#started}.0>`
    const now = this.#seconds()
    const beganMs = performance.now()
    this.#running.set(pid, { ...fields, started_on: now, updated_on: now })
    return {
      pid,
      update: (changed) => {
        const known = this.#running.get(pid)
        if (known) this.#running.set(pid, { ...known, ...changed, updated_on: this.#seconds() })
      },
      end: () => {
        if (this.#running.delete(pid)) this.#durations(fields.type).observe(performance.now() - beganMs)
      },
    }
  }

  /** Oldest first; the id of a task comes first, then its fields in alphabetical order. */
  list(): TaskFields[] {
    return [...this.#running].map(([pid, fields]) => {
      const shown = { ...fields, task: subjectOf(fields), status: statusOf(fields) }
      return Object.fromEntries([['pid', pid], ...Object.entries(shown).sort(([a], [b]) => (a < b ? -1 : 1))])
    })
  }

  #durations(type: string) {
    const help = 'time that compactions, index updates and runs of replications took that have ended'
    return this.#metrics.histogram('settle_task_duration_seconds', help, { type })
  }

  #counts(): [{ type: string }, number][] {
    const running = [...this.#running.values()]
    return TASK_TYPES.map((type) => [{ type }, running.filter((task) => task.type === type).length])
  }

  #seconds(): number {
    return Math.floor(this.#clock.nowMs() / 1000)
  }
}

/** What a task works on, for people. */
function subjectOf({ database, design_document, source, target }: TaskFields): string {
  if (source !== undefined) return `${source} to ${target}`
  return design_document === undefined ? `${database}` : `${database} ${design_document}`
}

/** How far it is, for people. */
function statusOf({ changes_done, total_changes, progress }: TaskFields): string {
  if (typeof progress !== 'number') return 'Running'
  const done = total_changes === undefined ? '' : `Processed ${changes_done} of ${total_changes} changes `
  return done === '' ? `${progress}%` : `${done}(${progress}%)`
}
