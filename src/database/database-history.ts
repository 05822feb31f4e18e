/**
 * What happened to databases since the server started: of each database the last event of each type, in order, in
 * memory. It is bounded. A reader from before its beginning (another run of the server, or dropped events) gets all
 * existing databases as created and updated, then the events. So no creation and no update is missed; a deletion may
 * be, if the reader had not seen it before a restart, or before it was dropped.
 */
import { randomBytes } from 'node:crypto'
import type { DatabaseEvent } from './database-services.ts'
import type { Databases } from './databases.ts'

export type HistoryEventType = 'created' | 'updated' | 'deleted'

/** A position in the history. A reader that continues after it misses nothing. */
export interface HistoryPosition {
  /** Of the last event, or, while existing databases are listed, of the last dropped event. */
  readonly sequence: number
  /** The last existing database that was listed; events follow after all of them. */
  readonly listed?: ListedDatabase
}

interface ListedDatabase {
  readonly type: HistoryEventType
  readonly db: string
}

export interface HistoryEvent {
  readonly type: HistoryEventType
  readonly db: string
  readonly position: HistoryPosition
}

export interface HistoryPortion {
  readonly events: readonly HistoryEvent[]
  /** Where the next portion begins. */
  readonly next: HistoryPosition
}

/** The beginning: all existing databases come first, then the events. */
export const START: HistoryPosition = { sequence: 0 }

/** After the existing databases, before the first event. */
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

  /** That of the last event. */
  get end(): HistoryPosition {
    return { sequence: this.#lastSequence }
  }

  /** Calls back after each event; returns how to unsubscribe. */
  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** A position as clients see it. */
  sequenceText({ sequence, listed }: HistoryPosition): string {
    return `${sequence}-${this.#run}${listed ? `-${listedText(listed)}` : ''}`
  }

  /** Parses a position that a client sent; undefined where it is not from this run of the server. */
  positionOf(text: string): HistoryPosition | undefined {
    const [digits = '', run, ofListed, ...more] = text.split('-')
    const sequence = Number(digits)
    const isOwn = run === this.#run && more.length === 0 && /^\d{1,15}$/.test(digits)
    if (!isOwn || sequence > this.#lastSequence) return undefined
    if (ofListed === undefined) return { sequence }
    const listed = parseListed(ofListed)
    return listed && { sequence, listed }
  }

  /** A portion of the events after this position; empty when there are none. */
  async after({ sequence, listed }: HistoryPosition): Promise<HistoryPortion> {
    // Events dropped since then may concern databases earlier in the list.
    if (listed) return this.#existing(sequence === this.#dropped ? listed : undefined)
    return sequence < this.#dropped ? this.#existing(undefined) : this.#portion(sequence)
  }

  close(): void {
    this.#unsubscribe()
  }

  /** Lists existing databases as if they were new, in the order of their names, after the last one that was listed. */
  async #existing(last: ListedDatabase | undefined): Promise<HistoryPortion> {
    const sequence = this.#dropped
    const names = await this.#databases.listReachable()
    const events: HistoryEvent[] = []
    const list = (type: HistoryEventType, db: string) =>
      events.push({ type, db, position: { sequence, listed: { type, db } } })
    for (const db of names) {
      if (last && db < last.db) continue
      // Its creation comes later as an event, and so do its updates.
      if (this.#latest.has(keyOf('created', db))) continue
      if (last?.db !== db) list('created', db)
      const isUpdateListed = last?.db === db && last.type === 'updated'
      if (!isUpdateListed && !this.#latest.has(keyOf('updated', db))) list('updated', db)
      if (events.length >= PORTION) return { events, next: events.at(-1)!.position }
    }
    return { events, next: { sequence } }
  }

  #portion(sequence: number): HistoryPortion {
    const events: HistoryEvent[] = []
    let next = sequence
    for (let i = this.#indexBehind(sequence); i < this.#events.length && events.length < PORTION; i++) {
      const event = this.#events[i]!
      if (this.#counts(event)) events.push(event)
      next = event.position.sequence
    }
    return { events, next: { sequence: next } }
  }

  /** The index of the first event after the sequence. */
  #indexBehind(sequence: number): number {
    let low = 0
    let high = this.#events.length
    while (low < high) {
      const middle = (low + high) >> 1
      if (this.#events[middle]!.position.sequence <= sequence) low = middle + 1
      else high = middle
    }
    return low
  }

  #counts(event: HistoryEvent): boolean {
    return this.#latest.get(keyOf(event.type, event.db)) === event
  }

  #add({ type, db }: DatabaseEvent): void {
    if (type === 'compacted' || type === 'ddoc_updated' || type === 'ddocs_updated_elsewhere') return
    const event = { type, db, position: { sequence: ++this.#lastSequence } }
    const { size } = this.#latest
    this.#latest.set(keyOf(type, db), event)
    this.#events.push(event)
    // Called for each commit: mostly there is nothing to do.
    if (this.#latest.size > size || this.#events.length > 2 * size + PORTION) this.#tidy()
    for (const listener of this.#listeners) listener()
  }

  /** Removes replaced events when they are most of the list, and the oldest events beyond the limit. */
  #tidy(): void {
    const limit = Math.max(1, this.#limit())
    const isTooLong = this.#latest.size > limit
    if (!isTooLong && this.#events.length < 2 * this.#latest.size + PORTION) return
    const counting = this.#events.filter((event) => this.#counts(event))
    // Many at a time: each run costs time in proportion to the list.
    const excess = isTooLong ? counting.length - Math.ceil(limit * KEPT_SHARE) : 0
    for (const event of counting.splice(0, excess)) {
      this.#latest.delete(keyOf(event.type, event.db))
      this.#dropped = event.position.sequence
    }
    this.#events = counting
  }
}

/** Events in one portion. */
const PORTION = 1000

/** The share of a full history that is kept. */
const KEPT_SHARE = 0.9

/** In hexadecimal digits, since names may contain hyphens. */
function listedText({ type, db }: ListedDatabase): string {
  return `${type}${Buffer.from(db).toString('hex')}`
}

function parseListed(text: string): ListedDatabase | undefined {
  const type = LISTED_TYPES.find((each) => text.startsWith(each))
  const db = type && Buffer.from(text.slice(type.length), 'hex').toString()
  // The decoder stops at the first character that is not a digit.
  return type && db && text === listedText({ type, db }) ? { type, db } : undefined
}

const LISTED_TYPES = ['created', 'updated'] as const

function keyOf(type: HistoryEventType, db: string): string {
  return `${type} ${db}`
}
