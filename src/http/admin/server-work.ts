/**
 * The long work in progress, as `_active_tasks` and `_scheduler/jobs` show it. Where several servers use the databases it is
 * that of all of them, whichever is asked.
 */
import { RequestError } from '../../document/request-error.ts'
import { type Job, timestampOf } from '../../replication/scheduler/job.ts'
import type { Scheduler } from '../../replication/scheduler/scheduler.ts'
import type { TaskFields, TaskRegistry } from '../../runtime/tasks.ts'
import type { OtherServers } from '../../storage/other-servers.ts'
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

export class ServerWork {
  readonly #sources: WorkSources

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
    const others = await this.#others()
    return [...this.#sources.tasks.list(), ...others.flatMap(({ tasks }) => tasks)]
  }

  /** In the order of their ids. */
  async jobs(): Promise<JobRow[]> {
    const others = await this.#others()
    return [...this.#ownJobs(), ...others.flatMap(({ jobs }) => jobs)].sort((a, b) => (a.id < b.id ? -1 : 1))
  }

  /** Cancels a replication that another server has; false where none has it. */
  async cancelElsewhere(id: string): Promise<boolean> {
    if (!(await this.#isElsewhere(id))) return false
    await this.#sources.otherServers?.ask(`${CANCEL}${id}`)
    if (await this.#isElsewhere(id)) throw notCancelled()
    return true
  }

  async #isElsewhere(id: string): Promise<boolean> {
    const others = await this.#others()
    return others.some(({ jobs }) => jobs.some((job) => job.id === id))
  }

  /** While the engine is away this server shows its own work. */
  async #others(): Promise<WorkReport[]> {
    const texts = await this.#sources.otherServers?.reports().catch(() => [])
    return (texts ?? []).map((text, i) => receivedReport(text, i + 1))
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

function notCancelled(): RequestError {
  const reason = 'Another server runs the replication, and does not end it in time.'
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
