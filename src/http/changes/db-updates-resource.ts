/**
 * `_db_updates`: which databases were created, updated and deleted, as one reply or continuously. In dialect 1.6 a feed
 * begins at the request unless `since` says otherwise, and its rows are those of the interface. In dialect 3 all of
 * them begin at the start, and their rows have sequences.
 */
import {
  type DatabaseHistory,
  type HistoryEvent,
  type HistoryPosition,
  START,
} from '../../database/database-history.ts'
import { badRequest } from '../../document/request-error.ts'
import { type Answer, streamed } from '../server/answer.ts'
import type { Call } from '../server/call.ts'
import type { PrimaryContext } from '../server/context.ts'
import { EVENT_HEADERS, type FeedKind, HEARTBEAT } from './changes-text.ts'
import { Feed, type IdlePolicy } from './feed.ts'

export function databaseUpdates(call: Call, context: PrimaryContext): Answer {
  const { history, deadlines, feeds } = context
  const kind = kindOf(call)
  const idle = idlePolicyOf(call, kind)
  const since = sinceOf(call, kind, context)
  const text = textOf(call, kind, history)
  if (kind === 'normal') return streamed(past({ history, since, text }))
  const feed = new Feed(call.reply, deadlines, idle)
  const leave = feeds.enter(kind)
  const unsubscribe = history.subscribe(() => feed.notify())
  return streamed(following({ history, since, text, feed, idle }), {
    headers: kind === 'eventsource' ? EVENT_HEADERS : {},
    isFlushed: true,
    release: () => {
      leave()
      unsubscribe()
      feed[Symbol.dispose]()
    },
  })
}

/** How the events of a feed are written. */
interface UpdatesText {
  readonly opening: string
  readonly between: string
  event(event: HistoryEvent): string
  closing(last: HistoryPosition): string
  /** Whether the feed ends after the first event, after the existing ones, or not at all. */
  readonly endsAfter: 'one' | 'some' | 'none'
}

function textOf(call: Call, kind: FeedKind, history: DatabaseHistory): UpdatesText {
  const seq = (position: HistoryPosition) => history.sequenceText(position)
  const row = ({ type, db, position }: HistoryEvent) => JSON.stringify({ db_name: db, type, seq: seq(position) })
  const isNew = call.dialect === '3'
  if (kind === 'normal' || (kind === 'longpoll' && isNew)) {
    const closing = (last: HistoryPosition) => `\n],\n"last_seq":${JSON.stringify(seq(last))}}\n`
    return { opening: '{"results":[\n', between: ',\n', event: row, closing, endsAfter: 'some' }
  }
  const hasSequences = call.query('since') !== undefined
  const oldRow = ({ type, db, position }: HistoryEvent) =>
    JSON.stringify({ ok: true, type, db_name: db, ...(hasSequences && { seq: seq(position) }) })
  const line = isNew ? row : oldRow
  const parts = { opening: '', between: '', endsAfter: kind === 'longpoll' ? 'one' : 'none' } as const
  if (kind === 'eventsource') return { ...parts, event: (event) => `data: ${line(event)}\n\n`, closing: () => '\n' }
  const closing = (last: HistoryPosition) => (isNew ? `${JSON.stringify({ last_seq: seq(last) })}\n` : '\n')
  return { ...parts, event: (event) => `${line(event)}\n`, closing }
}

interface Past {
  readonly history: DatabaseHistory
  readonly since: HistoryPosition
  readonly text: UpdatesText
}

/** What happened before the request. */
async function* past({ history, since, text }: Past): AsyncGenerator<string> {
  const { end } = history
  const lines = new Lines(text)
  yield text.opening
  let cursor = since
  do {
    const { events, next } = await history.after(cursor)
    yield* lines.of(events)
    cursor = next
  } while (isBefore(cursor, end))
  yield text.closing(cursor)
}

interface Following extends Past {
  readonly feed: Feed
  readonly idle: IdlePolicy
}

async function* following({ history, since, text, feed, idle }: Following): AsyncGenerator<string> {
  const lines = new Lines(text)
  if (text.opening !== '') yield text.opening
  let cursor = since
  for (;;) {
    const { events, next } = await history.after(cursor)
    if (text.endsAfter === 'one' && events[0]) {
      yield text.event(events[0])
      return
    }
    yield* lines.of(events)
    cursor = next
    if (isBefore(cursor, history.end)) continue
    if (text.endsAfter === 'some' && !lines.isEmpty) break
    if (!idle.sendsHeartbeat && idle.afterMs === 0) break
    feed.restartIdleTime()
    const what = await feed.wait()
    if (what === 'end' || (what === 'idle' && !idle.sendsHeartbeat)) break
    if (what === 'idle') yield HEARTBEAT
  }
  yield text.closing(cursor)
}

/** Databases that exist are listed before all events. */
function isBefore({ sequence, listed }: HistoryPosition, end: HistoryPosition): boolean {
  return listed !== undefined || sequence < end.sequence
}

/** Events in one piece of a reply. */
const PIECE_EVENTS = 500

/** The lines of a feed, with their separators. */
class Lines {
  readonly #text: UpdatesText
  #isEmpty = true

  constructor(text: UpdatesText) {
    this.#text = text
  }

  get isEmpty(): boolean {
    return this.#isEmpty
  }

  *of(events: readonly HistoryEvent[]): Generator<string> {
    const { between } = this.#text
    for (let i = 0; i < events.length; i += PIECE_EVENTS) {
      const lines = events.slice(i, i + PIECE_EVENTS).map((event) => this.#text.event(event))
      yield (this.#isEmpty ? '' : between) + lines.join(between)
      this.#isEmpty = false
    }
  }
}

const KINDS: ReadonlyMap<string, FeedKind> = new Map([
  ['normal', 'normal'],
  ['longpoll', 'longpoll'],
  ['continuous', 'continuous'],
  ['eventsource', 'eventsource'],
])

function kindOf(call: Call): FeedKind {
  const kind = KINDS.get(call.query('feed') ?? (call.dialect === '3' ? 'normal' : 'longpoll'))
  if (!kind) throw badRequest('Supported `feed` types: normal, longpoll, continuous, eventsource')
  return kind
}

/**
 * A sequence of an earlier run of the server, or one that is forgotten, means the start: nothing is skipped silently.
 */
function sinceOf(call: Call, kind: FeedKind, { history, log }: PrimaryContext): HistoryPosition {
  const text = call.query('since')
  if (text === 'now') return history.end
  if (text === undefined) return call.dialect === '3' || kind === 'normal' ? START : history.end
  const position = text === '0' ? START : history.positionOf(text)
  if (position) return position
  log.info('The sequence of _db_updates is from an earlier run of the server. The feed begins at the start.', {
    since: text,
  })
  return START
}

/** A smaller number means seconds, a larger one milliseconds, as clients of newer servers send them. */
const LEAST_MILLISECONDS = 1000

const IDLE_MS = 60_000

/** Longer timeouts are cut to this. */
const LONGEST_IDLE_MS = 24 * 3600 * 1000

function idlePolicyOf(call: Call, kind: FeedKind): IdlePolicy {
  const heartbeat = call.query('heartbeat')?.toLowerCase()
  const sendsHeartbeat = kind !== 'longpoll' && heartbeat !== 'false'
  const timeoutMs = timeoutOf(call)
  const isPeriod = call.dialect === '3' && heartbeat !== undefined && /^\d{1,15}$/.test(heartbeat)
  const afterMs = sendsHeartbeat && isPeriod ? Number(heartbeat) : timeoutMs
  // The shortest heartbeat interval.
  return { afterMs: Math.min(sendsHeartbeat ? Math.max(1, afterMs) : afterMs, LONGEST_IDLE_MS), sendsHeartbeat }
}

function timeoutOf(call: Call): number {
  const text = call.query('timeout')
  if (text !== undefined && !/^\d{1,15}$/.test(text)) throw badRequest('Invalid value for timeout')
  const given = Number(text ?? IDLE_MS)
  return given < LEAST_MILLISECONDS && call.dialect === '1.6' ? given * 1000 : given
}
