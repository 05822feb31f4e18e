/** The entry of a running replication in the list of tasks, updated once a second at most. */
import type { Task, TaskRegistry } from '../../runtime/tasks.ts'
import type { Attempt, JobSubject } from './job.ts'

const UPDATE_MS = 1000

export class ReplicationTask {
  readonly #task: Task
  readonly #attempt: Attempt
  #timer: NodeJS.Timeout | undefined
  #updatedMs = Number.NEGATIVE_INFINITY

  constructor(tasks: TaskRegistry, subject: JobSubject, attempt: Attempt) {
    this.#attempt = attempt
    this.#task = tasks.start({
      type: 'replication',
      replication_id: subject.id,
      doc_id: subject.document?.id ?? null,
      source: subject.source,
      target: subject.target,
      user: subject.user,
      continuous: subject.isContinuous,
      checkpoint_interval: subject.checkpointIntervalMs,
      ...attempt.progress(),
    })
  }

  get pid(): string {
    return this.#task.pid
  }

  /** To be called when there is progress. */
  update(): void {
    if (this.#timer) return
    const leftMs = this.#updatedMs + UPDATE_MS - performance.now()
    if (leftMs <= 0) this.#write()
    else this.#timer = setTimeout(() => this.#write(), leftMs).unref()
  }

  end(): void {
    clearTimeout(this.#timer)
    this.#task.end()
  }

  #write(): void {
    this.#timer = undefined
    this.#updatedMs = performance.now()
    this.#task.update({ ...this.#attempt.progress() })
  }
}
