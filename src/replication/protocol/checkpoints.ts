/**
 * Writes down on both peers how far a session came. A sequence is recorded only when everything up to it is on disk at
 * the target: both peers flush first, and neither may have been opened anew since the session began.
 */
import { RequestError } from '../../document/request-error.ts'
import type { JsonValue } from '../../encoding/json/json-value.ts'
import type { Peer } from '../peers/peer.ts'
import { isSameSequence, type Sequence } from '../peers/sequence.ts'
import { checkpointFailure } from '../replication-error.ts'
import { historyEntry, logOf, type ReplicationLog, type Session } from './replication-log.ts'

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
    await this.#write('source', this.#source, log)
    await this.#write('target', this.#target, log)
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

  async #write(name: string, logged: LoggedPeer, log: ReplicationLog): Promise<void> {
    const { peer } = logged
    try {
      logged.revision = await peer.writeLog(this.#id, log, logged.revision)
    } catch (error) {
      if (!(error instanceof RequestError)) throw error
      const stored = error.kind === 'conflict' ? await peer.readLog(this.#id) : undefined
      // The reply to an attempt was lost, not the attempt.
      if (!stored || !isWrittenAs(stored.members, log)) {
        const told = `Error updating the ${name} checkpoint document: ${error.reason}`
        throw checkpointFailure(told)
      }
      logged.revision = stored.revision
    }
  }
}

async function isUnchanged({ peer, instanceStartTime }: LoggedPeer): Promise<boolean> {
  const now = await peer.flush()
  return now === undefined || instanceStartTime === undefined || now === instanceStartTime
}

function isWrittenAs(members: Readonly<Record<string, JsonValue>>, log: ReplicationLog): boolean {
  const { session_id, source_last_seq } = members
  return session_id === log.session_id && isSameSequence(source_last_seq ?? null, log.source_last_seq)
}
