/** `_db_updates`: which databases were created, updated and deleted, from the request on; there is no history. */
import type { DatabaseEvent } from '../../database/database-engine.ts'
import type { Databases } from '../../database/databases.ts'
import { badRequest } from '../../document/request-error.ts'
import { type Answer, streamed } from '../server/answer.ts'
import type { Call } from '../server/call.ts'
import type { HttpContext } from '../server/context.ts'
import { EVENT_HEADERS, HEARTBEAT } from './changes-text.ts'
import { FeedWaiter, type Silence } from './feed-waiter.ts'

type Feed = 'longpoll' | 'continuous' | 'eventsource'

export function databaseUpdates(call: Call, { databases, deadlines }: HttpContext): Answer {
  const feed = feedOf(call)
  const silence = silenceOf(call, feed)
  const waiter = new FeedWaiter(call.reply, deadlines, silence)
  const events = new WaitingEvents(databases, () => waiter.news())
  return streamed(updates(feed, events, waiter, silence), {
    headers: feed === 'eventsource' ? EVENT_HEADERS : {},
    isFlushed: true,
    release: () => {
      events.close()
      waiter[Symbol.dispose]()
    },
  })
}

/** A number below this is meant as seconds, one from it on as milliseconds: clients of newer servers send those. */
const LEAST_MILLISECONDS = 1000

const SILENCE_MS = 60_000

/** However long a client would wait: a deadline beyond that is as good as none. */
const LONGEST_SILENCE_MS = 24 * 3600 * 1000

function feedOf(call: Call): Feed {
  const feed = call.query('feed') ?? 'longpoll'
  if (feed === 'longpoll' || feed === 'continuous' || feed === 'eventsource') return feed
  throw badRequest('Supported `feed` types: longpoll, continuous, eventsource')
}

function silenceOf(call: Call, feed: Feed): Silence {
  const text = call.query('timeout')
  if (text !== undefined && !/^\d{1,15}$/.test(text)) throw badRequest('Invalid value for timeout')
  const given = Number(text ?? SILENCE_MS)
  const afterMs = given < LEAST_MILLISECONDS ? given * 1000 : given
  const isFilled = feed !== 'longpoll' && call.query('heartbeat')?.toLowerCase() !== 'false'
  // A heartbeat without pause would be no feed but a flood.
  return { afterMs: Math.min(isFilled ? Math.max(1, afterMs) : afterMs, LONGEST_SILENCE_MS), isFilled }
}

async function* updates(
  feed: Feed,
  events: WaitingEvents,
  waiter: FeedWaiter,
  silence: Silence,
): AsyncGenerator<string> {
  for (;;) {
    const event = events.next()
    if (event) {
      yield feed === 'eventsource' ? `data: ${event}\n\n` : `${event}\n`
      if (feed === 'longpoll') return
      continue
    }
    if (!silence.isFilled && silence.afterMs === 0) break
    waiter.restart()
    const awaited = await waiter.wait()
    if (awaited === 'end' || (awaited === 'silence' && !silence.isFilled)) break
    if (awaited === 'silence') yield HEARTBEAT
  }
  yield '\n'
}

/** What a client has not been told yet. Bounded: whoever is that far behind cannot be told everything any more. */
const WAITING_LIMIT = 10_000

class WaitingEvents {
  readonly #forget: () => void
  readonly #onEvent: () => void
  /** Texts, in order. */
  readonly #waiting = new Set<string>()

  constructor(databases: Databases, onEvent: () => void) {
    this.#onEvent = onEvent
    this.#forget = databases.onEvent((event) => this.#add(event))
  }

  next(): string | undefined {
    const [first] = this.#waiting
    if (first !== undefined) this.#waiting.delete(first)
    return first
  }

  close(): void {
    this.#forget()
  }

  #add({ type, db }: DatabaseEvent): void {
    if (type === 'compacted' || type === 'ddoc_updated') return
    const text = JSON.stringify({ ok: true, type, db_name: db })
    // Of an event that waits to be told already, the newer one counts: its place is behind what came between.
    this.#waiting.delete(text)
    if (this.#waiting.size < WAITING_LIMIT) this.#waiting.add(text)
    this.#onEvent()
  }
}
