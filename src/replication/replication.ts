/**
 * One run of a replication: compares the logs, reads the changes feed of the source, transfers several batches at once,
 * and writes checkpoints. A new run continues after the last checkpoint.
 */

import { isObject, type JsonValue } from '../encoding/json/json-value.ts'
import type { Clock } from '../runtime/clock.ts'
import type { Log } from '../runtime/log/log.ts'
import { randomUuid } from '../runtime/uuids.ts'
import type { FeedOptions, Peer, PeerInformation, PeerOpener, SourcePeer, StoredLog, TargetPeer } from './peers/peer.ts'
import { FIRST_SEQUENCE, isSameSequence, progressOf, type Sequence, ThroughSequence } from './peers/sequence.ts'
import { type TransferContext, transferBatch } from './protocol/batch-transfer.ts'
import { Checkpoints, type LoggedPeer } from './protocol/checkpoints.ts'
import {
  type Ancestry,
  commonAncestry,
  dateText,
  historyEntry,
  REPLICATION_ID_VERSION,
  type Session,
  SessionStatistics,
} from './protocol/replication-log.ts'
import type { ReplicationId } from './replication-id.ts'
import type { ReplicationRequest } from './replication-request.ts'

/** The progress of a replication, with the member names of the interface. */
export interface ReplicationProgress {
  readonly revisions_checked: number
  readonly missing_revisions_found: number
  readonly docs_read: number
  readonly docs_written: number
  readonly doc_write_failures: number
  /** The newest sequence of the source that is known. */
  readonly source_seq: Sequence
  readonly checkpointed_source_seq: Sequence
  /** Everything up to here is at the target. */
  readonly through_seq: Sequence
  /** Changes between the two; null where sequences are not numbers. */
  readonly changes_pending: number | null
  readonly progress: number | null
}

/** The reply to a replication that ended, without `ok`. */
export interface ReplicationResult {
  readonly reply: Readonly<Record<string, JsonValue>>
  readonly progress: ReplicationProgress
}

/** What a run needs beside its request. */
export interface ReplicationSurroundings {
  readonly peers: PeerOpener
  readonly clock: Clock
  readonly log: Log
}

const FIGURES = ['start_time', 'end_time', 'docs_read', 'docs_written', 'doc_write_failures'] as const

export class Replication {
  readonly id: ReplicationId
  readonly request: ReplicationRequest
  /** Called when figures changed: often. */
  onProgress: (() => void) | undefined
  /** Called when both peers are open and the feed begins. */
  onStarted: (() => void) | undefined
  readonly #surroundings: ReplicationSurroundings
  #statistics = new SessionStatistics()
  #sourceSequence: Sequence = FIRST_SEQUENCE
  #through = new ThroughSequence(FIRST_SEQUENCE)
  #checkpoints: Checkpoints | undefined

  constructor(id: ReplicationId, request: ReplicationRequest, surroundings: ReplicationSurroundings) {
    this.id = id
    this.request = request
    this.#surroundings = surroundings
  }

  progress(): ReplicationProgress {
    const statistics = this.#statistics
    const { value: through } = this.#through
    const last = this.#sourceSequence
    const isCounted = typeof through === 'number' && typeof last === 'number'
    return {
      revisions_checked: statistics.missingChecked,
      missing_revisions_found: statistics.missingFound,
      docs_read: statistics.docsRead,
      docs_written: statistics.docsWritten,
      doc_write_failures: statistics.docWriteFailures,
      source_seq: last,
      checkpointed_source_seq: this.#checkpoints?.recorded ?? FIRST_SEQUENCE,
      through_seq: through,
      changes_pending: isCounted ? Math.max(0, last - through) : null,
      progress: progressOf(through, last),
    }
  }

  /**
   * Resolves when a one-shot replication is finished; a continuous one runs until the signal aborts it, or it fails.
   * Rejects with a `RequestError` that says why, or with the reason of the signal.
   */
  async run(signal: AbortSignal): Promise<ReplicationResult> {
    const ending = new AbortController()
    const either = AbortSignal.any([signal, ending.signal])
    try {
      either.throwIfAborted()
      const source = await this.#surroundings.peers.source(this.request, either)
      // A missing source ends the replication before the target is created.
      const sourceInformation = await source.information()
      const target = await this.#surroundings.peers.target(this.request, either)
      return await this.#run({ source, target, sourceInformation }, either, ending)
    } finally {
      // Aborts what is still under way at the peers.
      ending.abort(new Error('The replication is over.'))
    }
  }

  async #run(
    { source, target, sourceInformation }: OpenedPeers,
    signal: AbortSignal,
    ending: AbortController,
  ): Promise<ReplicationResult> {
    const { clock } = this.#surroundings
    const { options, since } = this.request
    const targetInformation = await target.information()
    const [sourceLog, targetLog] = options.useCheckpoints
      ? await Promise.all([source.readLog(this.id.base), target.readLog(this.id.base)])
      : []
    const ancestry = commonAncestry(sourceLog?.members, targetLog?.members)
    const start = since ?? ancestry.start
    const statistics = new SessionStatistics()
    const session: Session = { id: randomUuid(), startTime: dateText(clock.nowMs()), startSequence: start, statistics }
    const logged = {
      source: loggedPeer(source, sourceInformation.instanceStartTime, sourceLog),
      target: loggedPeer(target, targetInformation.instanceStartTime, targetLog),
    }
    const checkpoints = new Checkpoints(this.id.base, logged, session, ancestry.history)
    this.#statistics = statistics
    this.#sourceSequence = sourceInformation.updateSequence
    this.#through = new ThroughSequence(start)
    this.#checkpoints = checkpoints
    this.onStarted?.()
    this.onProgress?.()
    const schedule = new CheckpointSchedule(
      () => this.#checkpoint(checkpoints),
      options.checkpointIntervalMs,
      (error) => ending.abort(error),
    )
    try {
      await this.#transferAll({ source, target, statistics, signal, schedule, start }, ending)
      await schedule.end()
    } catch (error) {
      // What is done need not be done again. Whether this succeeds makes no difference to the failure.
      await schedule.end().catch(() => {})
      // The first reason counts: a failed batch or a cancellation. Later errors follow from it.
      throw signal.aborted ? signal.reason : error
    }
    return { reply: this.#reply(session, ancestry, checkpoints), progress: this.progress() }
  }

  async #checkpoint(checkpoints: Checkpoints): Promise<void> {
    if (!this.request.options.useCheckpoints) return
    await checkpoints.record(this.#through.value, this.#surroundings.clock.nowMs())
    this.onProgress?.()
  }

  /** Reads the feed as fast as batches are finished, several of them under way at once. */
  async #transferAll(run: RunContext, ending: AbortController): Promise<void> {
    const { source, target, statistics, signal, schedule, start } = run
    const { options } = this.request
    const context: TransferContext = {
      source,
      target,
      statistics,
      signal,
      retries: { retries: options.retriesPerRequest },
      onProgress: () => this.onProgress?.(),
      onRefused: (document, error) => this.#logRefusal(target, document.id, document.revision, error),
    }
    const running = new Set<Promise<void>>()
    const slots = new BatchSlots(options.workerProcesses)
    try {
      for await (const { changes, lastSequence } of source.changes(this.#feedOptions(start))) {
        if (isNewer(lastSequence, this.#sourceSequence)) this.#sourceSequence = lastSequence
        const done = this.#through.begin(lastSequence)
        const release = await slots.take()
        signal.throwIfAborted()
        // While the target flushes a batch, the next one is read.
        const work = transferBatch(changes, context, release)
          .then(() => {
            done()
            schedule.progressed()
            this.onProgress?.()
          })
          .catch((error: unknown) => ending.abort(error))
          .finally(() => {
            running.delete(work)
            release()
          })
        running.add(work)
      }
    } finally {
      await Promise.all(running)
    }
    signal.throwIfAborted()
  }

  #feedOptions(since: Sequence): FeedOptions {
    const { continuous, winningRevisionsOnly, filter, options } = this.request
    const leaves = winningRevisionsOnly ? 'winner' : 'all'
    return { since, continuous, leaves, filter, batchSize: options.workerBatchSize }
  }

  #reply(session: Session, ancestry: Ancestry, checkpoints: Checkpoints): Readonly<Record<string, JsonValue>> {
    const { useCheckpoints } = this.request.options
    const { value: through } = this.#through
    const entry = historyEntry(session, through, this.#surroundings.clock.nowMs())
    if (!useCheckpoints) return { use_checkpoints: false, history: [{ ...entry }] }
    const { last } = checkpoints
    if (!last) return this.#noChanges(ancestry, through)
    const { session_id, source_last_seq, replication_id_version, history } = last
    const log = { session_id, source_last_seq, replication_id_version }
    return { ...log, ...this.#figures({ ...entry }), history }
  }

  /** What the last session wrote, when this one had nothing to do. */
  #noChanges({ history }: Ancestry, through: Sequence): Readonly<Record<string, JsonValue>> {
    const [newest] = history
    if (newest === undefined) return { no_changes: true, history: [] }
    const entry = isObject(newest) ? newest : {}
    return {
      no_changes: true,
      session_id: entry.session_id ?? null,
      source_last_seq: through,
      replication_id_version: REPLICATION_ID_VERSION,
      ...this.#figures(entry),
      history: [...history],
    }
  }

  /** A reply to a replication of named documents says outside of its history what the newest session did. */
  #figures(entry: Readonly<Record<string, JsonValue>>): Readonly<Record<string, JsonValue>> {
    if (this.request.filter?.kind !== 'documents') return {}
    return Object.fromEntries(FIGURES.flatMap((name) => (entry[name] === undefined ? [] : [[name, entry[name]]])))
  }

  #logRefusal({ shown }: Peer, id: string, revision: string, error: string): void {
    const log: Log = this.#surroundings.log
    log.warn('A replicated document was refused.', { target: shown, id, revision, error })
  }
}

interface OpenedPeers {
  readonly source: SourcePeer
  readonly target: TargetPeer
  readonly sourceInformation: PeerInformation
}

interface RunContext {
  readonly source: SourcePeer
  readonly target: TargetPeer
  readonly statistics: SessionStatistics
  readonly signal: AbortSignal
  readonly schedule: CheckpointSchedule
  readonly start: Sequence
}

function loggedPeer(peer: Peer, instanceStartTime: string | undefined, log: StoredLog | undefined): LoggedPeer {
  return { peer, instanceStartTime, revision: log?.revision }
}

function isNewer(sequence: Sequence, than: Sequence): boolean {
  if (typeof sequence === 'number' && typeof than === 'number') return sequence > than
  return !isSameSequence(sequence, than)
}

/** The batches that are read at a time. Those that wait for the disk alone hold no slot: the target commits them together. */
class BatchSlots {
  #free: number
  #freed: (() => void) | undefined

  constructor(count: number) {
    this.#free = count
  }

  /** Resolves, when a slot is free, to its release, which may be called several times. For one caller at a time. */
  async take(): Promise<() => void> {
    while (this.#free === 0) await new Promise<void>((resolve) => (this.#freed = resolve))
    this.#free--
    let isHeld = true
    return () => {
      if (!isHeld) return
      isHeld = false
      this.#free++
      this.#freed?.()
    }
  }
}

/** Writes checkpoints an interval after there is something to record, one at a time. */
class CheckpointSchedule {
  readonly #write: () => Promise<void>
  readonly #intervalMs: number
  readonly #onFailure: (error: unknown) => void
  #timer: NodeJS.Timeout | undefined
  #writing: Promise<void> = Promise.resolve()
  #isEnded = false

  constructor(write: () => Promise<void>, intervalMs: number, onFailure: (error: unknown) => void) {
    this.#write = write
    this.#intervalMs = intervalMs
    this.#onFailure = onFailure
  }

  progressed(): void {
    if (this.#timer || this.#isEnded) return
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      this.#writing = this.#writing.then(this.#write).catch(this.#onFailure)
    }, this.#intervalMs).unref()
  }

  /** Writes the last one. */
  async end(): Promise<void> {
    this.#isEnded = true
    clearTimeout(this.#timer)
    this.#timer = undefined
    await this.#writing
    await this.#write()
  }
}
