/**
 * Writes the checkpoints of a session to both peers. A sequence is recorded only when everything up to it is on disk at
 * the target: both peers flush first, and neither may have been restarted since the session began.
 */
import { RequestError } from '../../document/request-error.ts'
import type { JsonValue } from '../../encoding/json/json-value.ts'
import type { Peer, StoredLog } from '../peers/peer.ts'
import { isSameSequence, type Sequence } from '../peers/sequence.ts'
import { checkpointFailure } from '../replication-error.ts'
import { hasSession, historyEntry, logOf, type ReplicationLog, type Session, sessionOf } from './replication-log.ts'

/** A peer, and what was known of it when the session began. */
export interface LoggedPeer {
  readonly peer: Peer
  readonly instanceStartTime: string | undefined
  /** Of its log; undefined where it has none. */
  revision: string | undefined
}

export class Checkpoints {
  readonly #id: string
  readonly #source: LoggedPeer
  readonly #target: LoggedPeer
  readonly #session: Session
  readonly #earlier: readonly JsonValue[]
  #recorded: Sequence
  #last: ReplicationLog | undefined

  constructor(
    id: string,
    { source, target }: { readonly source: LoggedPeer; readonly target: LoggedPeer },
    session: Session,
    earlier: readonly JsonValue[],
  ) {
    this.#id = id
    this.#source = source
    this.#target = target
    this.#session = session
    this.#earlier = earlier
    this.#recorded = session.startSequence
  }

  /** The newest sequence that is recorded. */
  get recorded(): Sequence {
    return this.#recorded
  }

  /** The log as this session wrote it; undefined where it did not. */
  get last(): ReplicationLog | undefined {
    return this.#last
  }

  async record(sequence: Sequence, nowMs: number): Promise<void> {
    if (isSameSequence(sequence, this.#recorded)) return
    await this.#flush()
    const log = logOf(historyEntry(this.#session, sequence, nowMs), this.#earlier)
    // At the same time: a log that only one of them has is not followed by a later session.
    const written = await Promise.allSettled([
      this.#write('source', this.#source, log),
      this.#write('target', this.#target, log),
    ])
    for (const each of written) if (each.status === 'rejected') throw each.reason
    this.#recorded = sequence
    this.#last = log
  }

  async #flush(): Promise<void> {
    const [source, target] = await Promise.all([isUnchanged(this.#source), isUnchanged(this.#target)])
    if (source && target) return
    const who = source ? 'Target database' : target ? 'Source database' : 'Source and target databases'
    const where = source ? "the target's server" : target ? "the source's server" : 'both servers'
    throw checkpointFailure(`${who} out of sync. Try to increase max_dbs_open at ${where}.`)
  }

  /**
   * Another replication of the same databases may write the same log: a one-shot beside a continuous one. Each of them
   * writes what is true, so that the last one counts.
   */
  async #write(name: string, logged: LoggedPeer, log: ReplicationLog): Promise<void> {
    const { peer } = logged
    for (let conflicts = 0; ; conflicts++) {
      try {
        logged.revision = await peer.writeLog(this.#id, log, logged.revision)
        return
      } catch (error) {
        if (!(error instanceof RequestError)) throw error
        const isConflict = error.kind === 'conflict' && conflicts < MOST_CONFLICTS
        const stored = isConflict ? await peer.readLog(this.#id) : undefined
        if (!stored || !this.#isOfSameDatabase(stored.members, logged)) {
          throw checkpointFailure(`Error updating the ${name} checkpoint document: ${error.reason}`)
        }
        logged.revision = stored.revision
        // The reply to an attempt was lost, not the attempt.
        if (isWrittenAs(stored.members, log)) return
      }
    }
  }

  /**
   * A recreated database lacks what this session has written: its log must not be overwritten. It contains no session.
   */
  #isOfSameDatabase({ history }: StoredLog['members'], { instanceStartTime }: LoggedPeer): boolean {
    if (instanceStartTime !== undefined && instanceStartTime !== UNTOLD_START_TIME) return true
    const stored: readonly JsonValue[] = Array.isArray(history) ? history : []
    return hasSession(stored, this.#session.id) || this.#earlier.some((each) => hasSession(stored, sessionOf(each)))
  }
}

/** How many concurrent updates of the log are tolerated. */
const MOST_CONFLICTS = 5

/** The instance start time that some servers send for every database. */
const UNTOLD_START_TIME = '0'

async function isUnchanged({ peer, instanceStartTime }: LoggedPeer): Promise<boolean> {
  const now = await peer.flush()
  return now === undefined || instanceStartTime === undefined || now === instanceStartTime
}

function isWrittenAs(members: Readonly<Record<string, JsonValue>>, log: ReplicationLog): boolean {
  const { session_id, source_last_seq } = members
  return session_id === log.session_id && isSameSequence(source_last_seq ?? null, log.source_last_seq)
}
