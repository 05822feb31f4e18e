/**
 * What happened to databases since the server started: of each database the last event of each type, in order, in memory.
 * It is bounded. Whoever comes from before its beginning (another run of the server, or events that were dropped) gets all
 * databases that exist as created and updated, then the events. So no creation and no update is ever missed; a deletion is
 * missed by who was not told of it before a restart, or before it was dropped.
 */
import { randomBytes } from 'node:crypto'
import type { DatabaseEvent } from './database-engine.ts'
import type { Databases } from './databases.ts'

export type HistoryEventType = 'created' | 'updated' | 'deleted'

export interface HistoryEvent {
  readonly type: HistoryEventType
  readonly db: string
  /** Whoever goes on behind it misses nothing. */
  readonly sequence: number
}

export interface HistoryPortion {
  readonly events: readonly HistoryEvent[]
  /** Where to go on. */
  readonly next: number
}

/** Before everything: all databases that exist come first, then the events. */
export const START = 0

/** Behind the databases that exist, before the first event. */
const BEFORE_EVENTS = 1

export class DatabaseHistory {
  readonly #databases: Databases
  readonly #limit: () => number
  /** Sequences of another run are not ours. */
  readonly #run = randomBytes(6).toString('hex')
  readonly #listeners = new Set<() => void>()
  readonly #unsubscribe: () => void
  /** In the order of their sequences. Those that a later one replaced are removed now and then. */
  #events: HistoryEvent[] = []
  /** The events that count. */
  readonly #latest = new Map<string, HistoryEvent>()
  #lastSequence = BEFORE_EVENTS
  /** The sequence of the last event that was dropped. */
  #dropped = BEFORE_EVENTS

  /** `limit` is how many events are kept. */
  constructor(databases: Databases, limit: () => number) {
    this.#databases = databases
    this.#limit = limit
    this.#unsubscribe = databases.onEvent((event) => this.#add(event))
  }

  /** The sequence of the last event. */
  get lastSequence(): number {
    return this.#lastSequence
  }

  /** Calls back after each event; returns how to unsubscribe. */
  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** A sequence as clients see it. */
  sequenceText(sequence: number): string {
    return `${sequence}-${this.#run}`
  }

  /** Of a text that a client sends: the sequence, or undefined where it is none of this run. */
  sequenceOf(text: string): number | undefined {
    const [digits = '', run, ...more] = text.split('-')
    const sequence = Number(digits)
    const isOwn = run === this.#run && more.length === 0 && /^\d{1,15}$/.test(digits)
    return isOwn && sequence <= this.#lastSequence ? sequence : undefined
  }

  /** The events behind this sequence, a portion of them; empty when there are none. */
  async after(sequence: number): Promise<HistoryPortion> {
    return sequence < this.#dropped ? this.#existing() : this.#portion(sequence)
  }

  close(): void {
    this.#unsubscribe()
  }

  /** As if every database that exists were new. */
  async #existing(): Promise<HistoryPortion> {
    const dropped = this.#dropped
    const names = await this.#databases.list()
    const events: HistoryEvent[] = []
    for (const db of names) {
      // Its creation is still to come, and so are the updates behind it.
      if (this.#latest.has(keyOf('created', db))) continue
      // Whoever breaks off within them begins anew.
      events.push({ type: 'created', db, sequence: START })
      if (!this.#latest.has(keyOf('updated', db))) events.push({ type: 'updated', db, sequence: START })
    }
    return { events, next: dropped }
  }

  #portion(sequence: number): HistoryPortion {
    const events: HistoryEvent[] = []
    let next = sequence
    for (let i = this.#indexBehind(sequence); i < this.#events.length && events.length < PORTION; i++) {
      const event = this.#events[i]!
      if (this.#counts(event)) events.push(event)
      next = event.sequence
    }
    return { events, next }
  }

  /** Where the first event behind the sequence lies. */
  #indexBehind(sequence: number): number {
    let low = 0
    let high = this.#events.length
    while (low < high) {
      const middle = (low + high) >> 1
      if (this.#events[middle]!.sequence <= sequence) low = middle + 1
      else high = middle
    }
    return low
  }

  #counts(event: HistoryEvent): boolean {
    return this.#latest.get(keyOf(event.type, event.db)) === event
  }

  #add({ type, db }: DatabaseEvent): void {
    if (type === 'compacted' || type === 'ddoc_updated') return
    const event = { type, db, sequence: ++this.#lastSequence }
    const { size } = this.#latest
    this.#latest.set(keyOf(type, db), event)
    this.#events.push(event)
    // Each commit comes here: mostly nothing is to be done.
    if (this.#latest.size > size || this.#events.length > 2 * size + PORTION) this.#tidy()
    for (const listener of this.#listeners) listener()
  }

  /** Removes replaced events when they are most of the list, and the oldest of those that are too many. */
  #tidy(): void {
    const limit = Math.max(1, this.#limit())
    const isTooLong = this.#latest.size > limit
    if (!isTooLong && this.#events.length < 2 * this.#latest.size + PORTION) return
    const counting = this.#events.filter((event) => this.#counts(event))
    // More than one at a time: each time costs as much as the list is long.
    const excess = isTooLong ? counting.length - Math.floor(limit * KEPT_SHARE) : 0
    for (const event of counting.splice(0, excess)) {
      this.#latest.delete(keyOf(event.type, event.db))
      this.#dropped = event.sequence
    }
    this.#events = counting
  }
}

/** Events that are given at a time. */
const PORTION = 1000

/** What is left of a history that is full. */
const KEPT_SHARE = 0.9

function keyOf(type: HistoryEventType, db: string): string {
  return `${type} ${db}`
}
