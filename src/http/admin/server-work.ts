/**
 * The long work in progress, as `_active_tasks` and `_scheduler/jobs` show it. Where several servers use the databases it is
 * that of all of them, whichever is asked.
 */
import { RequestError } from '../../document/request-error.ts'
import { type Job, timestampOf } from '../../replication/scheduler/job.ts'
import type { Scheduler } from '../../replication/scheduler/scheduler.ts'
import type { TaskFields, TaskRegistry } from '../../runtime/tasks.ts'
import type { OtherServers } from '../../storage/other-servers.ts'
import { SharedRuns } from '../../storage/shared-runs.ts'
import { NODE_NAME } from './node-name.ts'

export interface WorkSources {
  readonly tasks: TaskRegistry
  readonly scheduler: Scheduler
  /** Undefined where no other server uses the databases. */
  readonly otherServers: OtherServers | undefined
}

/** The work of one server. */
interface WorkReport {
  readonly tasks: readonly TaskFields[]
  readonly jobs: readonly JobRow[]
}

/** A replication of the scheduler. */
export type JobRow = Readonly<Record<string, unknown>> & { readonly id: string; readonly pid: string | null }

/** The work of the other servers. */
interface OtherWork {
  readonly reports: readonly WorkReport[]
  /** False where some of them do not answer. */
  readonly areAll: boolean
}

export class ServerWork {
  readonly #sources: WorkSources
  /** Reports may be long: many who ask at the same time read them once. */
  readonly #others = new SharedRuns(() => this.#readOthers(), { longestMs: SHARED_MS })

  constructor(sources: WorkSources) {
    this.#sources = sources
    const { otherServers, tasks } = sources
    otherServers?.reportWith(() => JSON.stringify({ tasks: tasks.list(), jobs: this.#ownJobs() }))
    otherServers?.answerWith(async (request) => {
      if (request.startsWith(CANCEL)) await this.#cancel(request.slice(CANCEL.length))
    })
  }

  /** Those of this server first, each with the oldest one first. */
  async tasks(): Promise<TaskFields[]> {
    const { reports } = await this.#others.run()
    return [...this.#sources.tasks.list(), ...reports.flatMap(({ tasks }) => tasks)]
  }

  /** In the order of their ids. */
  async jobs(): Promise<JobRow[]> {
    const { reports } = await this.#others.run()
    return [...this.#ownJobs(), ...reports.flatMap(({ jobs }) => jobs)].sort((a, b) => (a.id < b.id ? -1 : 1))
  }

  /** Undefined where no server has it. Throws where one that does not answer may have it. */
  async job(id: string): Promise<JobRow | undefined> {
    const own = this.#sources.scheduler.job(id)
    if (own) return jobRow(own)
    const job = await this.#jobElsewhere(id)
    if (job === 'unknown') throw notAnswered()
    return job
  }

  /** Cancels a replication in all other servers that have it. Throws where one has it and does not end it in time. */
  async cancelElsewhere(id: string): Promise<'cancelled' | 'none' | 'unknown'> {
    const job = await this.#jobElsewhere(id)
    if (!job) return 'none'
    if (job === 'unknown') return job
    await this.#sources.otherServers?.ask(`${CANCEL}${id}`)
    const left = await this.#jobElsewhere(id)
    if (left && left !== 'unknown') throw unavailable('Another server does not end the replication in time.')
    return left ?? 'cancelled'
  }

  /** Unknown: a server that does not answer may have it. */
  async #jobElsewhere(id: string): Promise<JobRow | 'unknown' | undefined> {
    const { reports, areAll } = await this.#others.run()
    const job = reports.flatMap(({ jobs }) => jobs).find((each) => each.id === id)
    return job ?? (areAll ? undefined : 'unknown')
  }

  /** While the engine is away this server shows its own work. */
  async #readOthers(): Promise<OtherWork> {
    const { otherServers } = this.#sources
    if (!otherServers) return { reports: [], areAll: true }
    const { texts, areAll } = await otherServers.reports().catch(() => ({ texts: [], areAll: false }))
    return { reports: texts.map((text, i) => receivedReport(text, i + 1)), areAll }
  }

  /** Another server was asked to. */
  async #cancel(id: string): Promise<void> {
    const { scheduler } = this.#sources
    const job = scheduler.job(id)
    if (job) await scheduler.remove(job)
  }

  #ownJobs(): JobRow[] {
    return this.#sources.scheduler.jobs.map(jobRow)
  }
}

const CANCEL = 'cancel '
/** Who asks while the reports are being read waits for this time at most before they are read again. */
const SHARED_MS = 500

export function notAnswered(): RequestError {
  return unavailable('Another server, which may run the replication, does not answer.')
}

function unavailable(reason: string): RequestError {
  return new RequestError('unavailable', 'service_unavailable', reason)
}

function jobRow({ subject, progress, history, run, addedMs }: Job): JobRow {
  const { id, source, target, user, document } = subject
  return {
    database: document?.database ?? null,
    id,
    pid: run?.pid ?? null,
    source,
    target,
    user,
    doc_id: document?.id ?? null,
    info: progress ?? null,
    history: history.events,
    node: NODE_NAME,
    start_time: timestampOf(addedMs),
  }
}

/** The first number of a process id tells the servers apart: 0 is the one that is asked. */
function receivedReport(text: string, server: number): WorkReport {
  // Servers of another release may report less.
  const { tasks = [], jobs = [] }: Partial<WorkReport> = JSON.parse(text)
  const pidOf = (pid: unknown) => (typeof pid === 'string' ? pid.replace('<0.', `<${server}.`) : null)
  return {
    tasks: tasks.map((task) => ({ ...task, pid: pidOf(task.pid) })),
    jobs: jobs.map((job) => ({ ...job, pid: pidOf(job.pid) })),
  }
}
