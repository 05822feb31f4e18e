/**
 * The replications of a server: those that requests ask for, and those of the documents of the replicator database. Equal
 * ones share a job, and the scheduler runs all of them.
 */

import { isServerAdmin } from '../auth/rights/rights.ts'
import type { UserContext } from '../database/user-context.ts'
import { RequestError } from '../document/request-error.ts'
import type { LeaseProof } from '../storage/leases/work-leases.ts'
import { TransientError } from './client/retries.ts'
import { type PreparedReplication, UnusableDocumentError } from './documents/document-job.ts'
import type { FollowedDocuments } from './documents/document-jobs.ts'
import { type Members, userOf } from './documents/replication-document.ts'
import { Replicator } from './documents/replicator.ts'
import { openSource, peersOf } from './peers/open-peers.ts'
import { Replication, type ReplicationResult, type ReplicationSurroundings } from './replication.ts'
import { cancelled, noSuchReplication, reasonOf, replicationFailure } from './replication-error.ts'
import { type ReplicationId, replicationId } from './replication-id.ts'
import { parseReplicationRequest, type ReplicationRequest } from './replication-request.ts'
import type { ReplicationServices } from './replication-services.ts'
import { defaultOptions } from './replication-settings.ts'
import { Job, type JobSubject } from './scheduler/job.ts'
import { Scheduler } from './scheduler/scheduler.ts'
import { schedulerSettings } from './scheduler/scheduler-settings.ts'

/** A started replication, for the request that waits for it. */
export interface RequestedReplication {
  /** Resolves when both peers are open and the feed begins, or when the job has to wait for a slot. */
  readonly accepted: Promise<void>
  /** Rejects with a `RequestError` when it fails or is cancelled. */
  readonly result: Promise<ReplicationResult>
}

export class Replications {
  readonly scheduler: Scheduler
  readonly #services: ReplicationServices
  readonly #replicator: Replicator
  readonly #forgetSettings: () => void
  readonly #closing = new AbortController()

  constructor(services: ReplicationServices) {
    const { configuration, auth, tasks, clock, log, metrics } = services
    const settings = () => schedulerSettings(configuration)
    this.#services = services
    this.scheduler = new Scheduler({ settings, tasks, clock, log, metrics, reasonOf })
    this.#replicator = new Replicator({
      scheduler: this.scheduler,
      system: auth.replicator,
      configuration,
      settings,
      clock,
      log,
      reasonOf,
      leases: services.leases,
      prepare: (members, signal, lease) => this.#prepare(members, signal, lease),
    })
    this.#forgetSettings = configuration.onChange(({ section }) => {
      if (section === 'replicator') this.scheduler.settingsChanged()
    })
  }

  /** Begins with the documents of the replicator database; does not wait for any of them. */
  start(): Promise<void> {
    return this.#replicator.start()
  }

  /** The jobs of documents; undefined where there is no replicator database. */
  get documents(): FollowedDocuments | undefined {
    return this.#replicator.documents
  }

  /** The id of a replication. Reads the filter function from the source, where there is one. */
  async identify(request: ReplicationRequest, signal?: AbortSignal): Promise<ReplicationId> {
    const { engineUuid, configuration } = this.#services
    // A replication that another server takes over finds its checkpoints by this.
    const uuid = engineUuid ?? configuration.text('service', 'uuid')
    return replicationId(request, uuid, await this.#filterSource(request, signal))
  }

  /** Starts a replication, or joins the equal one that is there. */
  async run(id: ReplicationId, request: ReplicationRequest): Promise<RequestedReplication> {
    return outcomeOf(await this.#join(id, request))
  }

  /** Throws where there is no such replication, or where it is not the user's. */
  async cancel(fullId: string, user: UserContext): Promise<void> {
    const job = this.scheduler.job(fullId)
    if (!job) throw noSuchReplication(fullId)
    if (!isServerAdmin(user) && job.subject.user !== user.name) {
      throw new RequestError('unauthorized', 'unauthorized', "Can't cancel a replication triggered by another user")
    }
    await this.scheduler.remove(job)
  }

  /** Stops all of them, each after a last checkpoint. Documents stay as they are: the next start resumes them. */
  async close(): Promise<void> {
    this.#closing.abort(cancelled())
    this.#forgetSettings()
    await this.#replicator.close()
    await this.scheduler.close()
  }

  async #join(id: ReplicationId, request: ReplicationRequest): Promise<Job> {
    for (;;) {
      if (this.#closing.signal.aborted) throw cancelled()
      const known = this.scheduler.job(id.full)
      if (!known) return this.#add(id, request)
      const { run } = known
      if (run?.stopCause !== 'removed') {
        this.scheduler.retryNow(known)
        return known
      }
      // One that is being cancelled ends soon.
      await run.done
    }
  }

  /** The caller gets the failure, and may try again. */
  #add(id: ReplicationId, request: ReplicationRequest): Job {
    const job = new Job({
      subject: { ...subjectOf(id, request), document: undefined },
      attempt: () => new Replication(id, request, this.#surroundings()),
      isRetried: false,
      historyLimit: () => schedulerSettings(this.#services.configuration).maxHistory,
    })
    this.scheduler.add(job)
    return job
  }

  async #prepare(members: Members, signal: AbortSignal, lease: LeaseProof | undefined): Promise<PreparedReplication> {
    const { auth, configuration } = this.#services
    const user = userOf(members, { isOpen: auth.settings.frequent.current.isOpen })
    const request = parsed(() => parseReplicationRequest(members, user, defaultOptions(configuration)))
    const id = await this.identify(request, signal)
    return {
      subject: subjectOf(id, request),
      baseId: id.base,
      attempt: () => new Replication(id, request, this.#surroundings(lease)),
    }
  }

  #surroundings(lease?: LeaseProof): ReplicationSurroundings {
    const { clock, log } = this.#services
    return { peers: peersOf({ ...this.#services, lease }), clock, log }
  }

  async #filterSource(request: ReplicationRequest, signal?: AbortSignal): Promise<string | undefined> {
    const { filter, source } = request
    if (filter?.kind !== 'function') return undefined
    const ending = new AbortController()
    const given = signal ? [signal] : []
    const either = AbortSignal.any([...given, this.#closing.signal, ending.signal])
    try {
      const peer = await openSource(request, this.#services, either)
      return await peer.filterSource(filter)
    } catch (error) {
      const reason =
        error instanceof RequestError ? error.reason : error instanceof TransientError ? error.message : undefined
      if (reason === undefined || (error instanceof RequestError && error.error === 'error')) throw error
      throw replicationFailure(`Could not open source database \`${source.shown}\`: ${reason}`)
    } finally {
      ending.abort()
    }
  }
}

function subjectOf(id: ReplicationId, request: ReplicationRequest): Omit<JobSubject, 'document'> {
  const { source, target, user, continuous, options } = request
  return {
    id: id.full,
    source: source.shown,
    target: target.shown,
    user: user.name,
    isContinuous: continuous,
    checkpointIntervalMs: options.checkpointIntervalMs,
  }
}

/** An invalid document is not retried. */
function parsed<T>(parse: () => T): T {
  try {
    return parse()
  } catch (error) {
    if (error instanceof RequestError) throw new UnusableDocumentError(reasonOf(error))
    throw error
  }
}

function outcomeOf(job: Job): RequestedReplication {
  const accepted = Promise.withResolvers<void>()
  const result = Promise.withResolvers<ReplicationResult>()
  const fail = (error: unknown) => {
    stopListening()
    result.reject(error instanceof RequestError ? error : replicationFailure(reasonOf(error)))
  }
  const stopListening = job.listen({
    started: accepted.resolve,
    completed: (end) => result.resolve(end),
    crashed: fail,
    failed: fail,
    removed: () => fail(cancelled()),
  })
  if (job.run ? job.run.isStarted : job.state === 'pending') accepted.resolve()
  const begun = Promise.race([accepted.promise, result.promise.then(() => {})])
  // Nobody waits for both.
  begun.catch(() => {})
  result.promise.catch(() => {})
  return { accepted: begun, result: result.promise }
}
