/**
 * The log of a replication: a local document on both peers that says how far earlier sessions came. A sequence counts
 * only where both logs know the session that recorded it.
 */
import { isObject, type JsonValue } from '../../encoding/json/json-value.ts'
import { FIRST_SEQUENCE, type Sequence } from '../peers/sequence.ts'

/** The version of replication ids that the interface reports. */
export const REPLICATION_ID_VERSION = 3

const HISTORY_ENTRIES = 50
/** The most entries of a log that are read. */
const MOST_ENTRIES = 500

export interface HistoryEntry {
  readonly session_id: string
  readonly start_time: string
  readonly end_time: string
  readonly start_last_seq: Sequence
  readonly end_last_seq: Sequence
  readonly recorded_seq: Sequence
  readonly missing_checked: number
  readonly missing_found: number
  readonly docs_read: number
  readonly docs_written: number
  readonly doc_write_failures: number
}

/** An entry that some server wrote: what it has beside these members is kept. */
interface KnownEntry {
  readonly session_id: string
  readonly recorded_seq: Sequence
}

export interface ReplicationLog {
  readonly session_id: string
  readonly source_last_seq: Sequence
  readonly replication_id_version: number
  readonly history: readonly JsonValue[]
}

export interface Ancestry {
  readonly start: Sequence
  /** The entries of earlier sessions that count, newest first. */
  readonly history: readonly JsonValue[]
}

type LogMembers = Readonly<Record<string, JsonValue>> | undefined

/** The newest sequence that both logs know of. */
export function commonAncestry(source: LogMembers, target: LogMembers): Ancestry {
  const none: Ancestry = { start: FIRST_SEQUENCE, history: [] }
  if (!source || !target) return none
  const sourceHistory = historyIn(source)
  if (typeof source.session_id === 'string' && source.session_id === target.session_id) {
    return { start: source.source_last_seq ?? FIRST_SEQUENCE, history: sourceHistory }
  }
  return commonEntry(sourceHistory, historyIn(target)) ?? none
}

/** Walks both histories from their newest entries on, until a session is found that both have. */
function commonEntry(source: readonly JsonValue[], target: readonly JsonValue[]): Ancestry | undefined {
  for (let at = 0; at < source.length && at < target.length; at++) {
    const fromSource = knownEntry(source[at])
    if (fromSource && hasSession(target.slice(at), fromSource.session_id)) {
      return { start: fromSource.recorded_seq, history: source.slice(at) }
    }
    const fromTarget = knownEntry(target[at])
    if (fromTarget && hasSession(source.slice(at + 1), fromTarget.session_id)) {
      return { start: fromTarget.recorded_seq, history: target.slice(at) }
    }
  }
  return undefined
}

function historyIn({ history }: Readonly<Record<string, JsonValue>>): readonly JsonValue[] {
  return Array.isArray(history) ? history.slice(0, MOST_ENTRIES) : []
}

function knownEntry(entry: JsonValue | undefined): KnownEntry | undefined {
  if (!isObject(entry) || typeof entry.session_id !== 'string') return undefined
  const recorded: JsonValue = entry.recorded_seq ?? FIRST_SEQUENCE
  return { session_id: entry.session_id, recorded_seq: recorded }
}

export function hasSession(history: readonly JsonValue[], session: string | undefined): boolean {
  return session !== undefined && history.some((entry) => knownEntry(entry)?.session_id === session)
}

/** The session of an entry; undefined where it names none. */
export function sessionOf(entry: JsonValue | undefined): string | undefined {
  return knownEntry(entry)?.session_id
}

/** One run of a replication, as in its history entry. */
export interface Session {
  readonly id: string
  readonly startTime: string
  readonly startSequence: Sequence
  readonly statistics: SessionStatistics
}

export function historyEntry(session: Session, recorded: Sequence, nowMs: number): HistoryEntry {
  const { statistics } = session
  return {
    session_id: session.id,
    start_time: session.startTime,
    end_time: dateText(nowMs),
    start_last_seq: session.startSequence,
    end_last_seq: recorded,
    recorded_seq: recorded,
    missing_checked: statistics.missingChecked,
    missing_found: statistics.missingFound,
    docs_read: statistics.docsRead,
    docs_written: statistics.docsWritten,
    doc_write_failures: statistics.docWriteFailures,
  }
}

/** A session has one entry, the newest. */
export function logOf(entry: HistoryEntry, earlier: readonly JsonValue[]): ReplicationLog {
  const others = earlier.filter((each) => knownEntry(each)?.session_id !== entry.session_id)
  return {
    session_id: entry.session_id,
    source_last_seq: entry.recorded_seq,
    replication_id_version: REPLICATION_ID_VERSION,
    history: [{ ...entry }, ...others].slice(0, HISTORY_ENTRIES),
  }
}

/** `Sun, 13 Oct 2013 11:58:00 GMT` */
export function dateText(ms: number): string {
  return new Date(ms).toUTCString()
}

/** What one session of a replication did so far. */
export class SessionStatistics {
  /** Revisions that the target was asked about. */
  missingChecked = 0
  /** Those of them that it did not have. */
  missingFound = 0
  docsRead = 0
  docsWritten = 0
  docWriteFailures = 0
}
