/**
 * The replications that run, by their ids: equal requests share one. Behind `POST /_replicate`, and for whoever else
 * starts replications.
 */
import { isServerAdmin, type UserContext } from '../database/user-context.ts'
import { RequestError } from '../document/request-error.ts'
import type { TaskFields } from '../runtime/tasks.ts'
import { openSource } from './peers/open-peers.ts'
import { Replication, type ReplicationResult } from './replication.ts'
import { cancelled, noSuchReplication, replicationFailure } from './replication-error.ts'
import { type ReplicationId, replicationId } from './replication-id.ts'
import type { ReplicationRequest } from './replication-request.ts'
import type { ReplicationServices } from './replication-services.ts'

export interface RunningReplication {
  readonly replication: Replication
  /** Who started it. */
  readonly user: UserContext
  /** Resolves when both peers are open and the feed begins; never where that does not come to pass. */
  readonly started: Promise<void>
  /** Rejects with a `RequestError` when it fails or is cancelled. */
  readonly result: Promise<ReplicationResult>
  /** Resolves when it is over, whatever became of it. */
  cancel(): Promise<void>
}

export interface StartOptions {
  /** The document of the replicator database that asks for it. */
  readonly documentId?: string | undefined
}

export class Replications {
  readonly #services: ReplicationServices
  readonly #running = new Map<string, RunningReplication>()
  #isClosed = false

  constructor(services: ReplicationServices) {
    this.#services = services
  }

  /** The id of a replication. Reads the filter function from the source, where there is one. */
  async identify(request: ReplicationRequest): Promise<ReplicationId> {
    const uuid = this.#services.configuration.text('service', 'uuid')
    return replicationId(request, uuid, await this.#filterSource(request))
  }

  find(fullId: string): RunningReplication | undefined {
    return this.#running.get(fullId)
  }

  /** The running replications, oldest first. */
  list(): readonly RunningReplication[] {
    return [...this.#running.values()]
  }

  /** Starts a replication, or joins the equal one that runs. */
  start(id: ReplicationId, request: ReplicationRequest, options: StartOptions = {}): RunningReplication {
    const known = this.#running.get(id.full)
    if (known) return known
    if (this.#isClosed) throw cancelled()
    const replication = new Replication(id, request, this.#services)
    const ending = new AbortController()
    const { promise: started, resolve: onStarted } = Promise.withResolvers<void>()
    const result = this.#run(replication, ending.signal, options, onStarted)
    const over = result.then(
      () => {},
      () => {},
    )
    const running: RunningReplication = {
      replication,
      user: request.user,
      started,
      result,
      cancel: async () => {
        ending.abort(cancelled())
        await over
      },
    }
    this.#running.set(id.full, running)
    return running
  }

  /** Throws where there is no such replication, or where it is not the user's. */
  async cancel(fullId: string, user: UserContext): Promise<void> {
    const running = this.#running.get(fullId)
    if (!running) throw noSuchReplication(fullId)
    if (!isServerAdmin(user) && running.user.name !== user.name) {
      throw new RequestError(401, 'unauthorized', "Can't cancel a replication triggered by another user")
    }
    await running.cancel()
  }

  /** Ends all of them, each after a last checkpoint. */
  async close(): Promise<void> {
    this.#isClosed = true
    await Promise.all(this.list().map((running) => running.cancel()))
  }

  async #run(
    replication: Replication,
    signal: AbortSignal,
    options: StartOptions,
    onStarted: () => void,
  ): Promise<ReplicationResult> {
    const { log } = this.#services
    const { id } = replication
    const shown = { id: id.full, ...addressesOf(replication.request) }
    // Its caller knows of it before it begins.
    await Promise.resolve()
    using task = new ReplicationTask(replication, this.#services, options)
    replication.onStarted = () => {
      task.update()
      onStarted()
    }
    log.info('A replication begins.', shown)
    try {
      const result = await replication.run(signal)
      log.info('A replication is finished.', shown)
      return result
    } catch (error) {
      const told = error instanceof RequestError ? error : replicationFailure(messageOf(error))
      if (!signal.aborted) log.error('A replication failed.', { ...shown, error: told.error, reason: told.reason })
      throw told
    } finally {
      if (this.#running.get(id.full)?.replication === replication) this.#running.delete(id.full)
    }
  }

  async #filterSource(request: ReplicationRequest): Promise<string | undefined> {
    const { filter, source } = request
    if (filter?.kind !== 'function') return undefined
    const ending = new AbortController()
    try {
      const peer = await openSource(request, this.#services, ending.signal)
      return await peer.filterSource(filter)
    } catch (error) {
      if (!(error instanceof RequestError) || error.error === 'error') throw error
      throw replicationFailure(`Could not open source database \`${source.shown}\`: ${error.reason}`)
    } finally {
      ending.abort()
    }
  }
}

function addressesOf({ source, target }: ReplicationRequest): { source: string; target: string } {
  return { source: source.shown, target: target.shown }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

/** How often the task of a replication is brought up to date. */
const TASK_INTERVAL_MS = 1000

/** A replication as `_active_tasks` shows it. */
class ReplicationTask implements Disposable {
  readonly #replication: Replication
  readonly #task: ReturnType<ReplicationServices['tasks']['start']>
  #timer: NodeJS.Timeout | undefined

  constructor(replication: Replication, { tasks }: ReplicationServices, { documentId }: StartOptions) {
    this.#replication = replication
    const { request, id } = replication
    this.#task = tasks.start({
      type: 'replication',
      replication_id: id.full,
      doc_id: documentId ?? null,
      continuous: request.continuous,
      checkpoint_interval: request.options.checkpointIntervalMs,
      ...addressesOf(request),
      ...this.#fields(),
    })
    replication.onProgress = () => {
      this.#timer ??= setTimeout(() => {
        this.#timer = undefined
        this.update()
      }, TASK_INTERVAL_MS).unref()
    }
  }

  update(): void {
    this.#task.update(this.#fields())
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer)
    this.#replication.onProgress = undefined
    this.#task.end()
  }

  #fields(): TaskFields & { readonly progress: number | null } {
    return { ...this.#replication.progress() }
  }
}
