/** `_db_updates`: which databases were created, updated and deleted, from the request on; there is no history. */
import type { DatabaseEvent } from '../../database/database-engine.ts'
import type { Databases } from '../../database/databases.ts'
import { badRequest } from '../../document/request-error.ts'
import { type Answer, streamed } from '../server/answer.ts'
import type { Call } from '../server/call.ts'
import type { HttpContext } from '../server/context.ts'
import { EVENT_HEADERS, HEARTBEAT } from './changes-text.ts'
import { Feed, type IdlePolicy } from './feed.ts'

type FeedKind = 'longpoll' | 'continuous' | 'eventsource'

export function databaseUpdates(call: Call, { databases, deadlines }: HttpContext): Answer {
  const kind = kindOf(call)
  const idle = idlePolicyOf(call, kind)
  const feed = new Feed(call.reply, deadlines, idle)
  const events = new PendingEvents(databases, () => feed.notify())
  return streamed(updates(kind, events, feed, idle), {
    headers: kind === 'eventsource' ? EVENT_HEADERS : {},
    isFlushed: true,
    release: () => {
      events.close()
      feed[Symbol.dispose]()
    },
  })
}

/** A number below this is meant as seconds, one from it on as milliseconds: clients of newer servers send those. */
const LEAST_MILLISECONDS = 1000

const IDLE_MS = 60_000

/** However long a client would wait: a deadline beyond that is as good as none. */
const LONGEST_IDLE_MS = 24 * 3600 * 1000

function kindOf(call: Call): FeedKind {
  const kind = call.query('feed') ?? 'longpoll'
  if (kind === 'longpoll' || kind === 'continuous' || kind === 'eventsource') return kind
  throw badRequest('Supported `feed` types: longpoll, continuous, eventsource')
}

function idlePolicyOf(call: Call, kind: FeedKind): IdlePolicy {
  const text = call.query('timeout')
  if (text !== undefined && !/^\d{1,15}$/.test(text)) throw badRequest('Invalid value for timeout')
  const given = Number(text ?? IDLE_MS)
  const afterMs = given < LEAST_MILLISECONDS ? given * 1000 : given
  const sendsHeartbeat = kind !== 'longpoll' && call.query('heartbeat')?.toLowerCase() !== 'false'
  // A heartbeat without pause would be no feed but a flood.
  return { afterMs: Math.min(sendsHeartbeat ? Math.max(1, afterMs) : afterMs, LONGEST_IDLE_MS), sendsHeartbeat }
}

async function* updates(kind: FeedKind, events: PendingEvents, feed: Feed, idle: IdlePolicy): AsyncGenerator<string> {
  for (;;) {
    const event = events.next()
    if (event) {
      yield kind === 'eventsource' ? `data: ${event}\n\n` : `${event}\n`
      if (kind === 'longpoll') return
      continue
    }
    if (!idle.sendsHeartbeat && idle.afterMs === 0) break
    feed.restartIdleTime()
    const what = await feed.wait()
    if (what === 'end' || (what === 'idle' && !idle.sendsHeartbeat)) break
    if (what === 'idle') yield HEARTBEAT
  }
  yield '\n'
}

/** Events that a client has not got yet. Bounded: a client that is that far behind misses the rest. */
const PENDING_LIMIT = 10_000

class PendingEvents {
  readonly #unsubscribe: () => void
  readonly #onEvent: () => void
  /** Texts, in order. */
  readonly #pending = new Set<string>()

  constructor(databases: Databases, onEvent: () => void) {
    this.#onEvent = onEvent
    this.#unsubscribe = databases.onEvent((event) => this.#add(event))
  }

  next(): string | undefined {
    const [first] = this.#pending
    if (first !== undefined) this.#pending.delete(first)
    return first
  }

  close(): void {
    this.#unsubscribe()
  }

  #add({ type, db }: DatabaseEvent): void {
    if (type === 'compacted' || type === 'ddoc_updated') return
    const text = JSON.stringify({ ok: true, type, db_name: db })
    // Of an event that is pending already, the newer one counts: its place is behind what came between.
    this.#pending.delete(text)
    if (this.#pending.size < PENDING_LIMIT) this.#pending.add(text)
    this.#onEvent()
  }
}
