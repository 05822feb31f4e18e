/**
 * Slots shared fairly between owners: a queue that serves owners in turn, the rule for who may have another slot, and
 * a counting semaphore of both.
 */
import { RequestError } from '../document/request-error.ts'

interface Waiter {
  readonly owner: string
  serve(): void
  refuse(error: Error): void
}

const MOST_WAITING = 10_000

/**
 * A counting semaphore that is fair between owners: waiters of different owners are served in turn, and some slots are
 * reserved for owners that hold none. A released slot goes straight to the next waiter, so a new one cannot overtake
 * it.
 */
export class FairSemaphore {
  /** The number of slots; it may change at any time. */
  readonly #limit: () => number
  readonly #waiting = new FairQueue<Waiter>()
  /** Slots held by each owner. */
  readonly #held = new Map<string, number>()
  #heldByAll = 0
  #closed: Error | undefined

  constructor(limit: () => number) {
    this.#limit = limit
  }

  /** Resolves when a slot is acquired, which must be released. Rejects with the signal's reason if that comes first. */
  async acquire({ owner, signal }: Run): Promise<void> {
    signal?.throwIfAborted()
    if (this.#closed) throw this.#closed
    if (this.tryAcquire(owner)) return
    if (this.#waiting.size >= MOST_WAITING) {
      throw new RequestError('unavailable', 'service_unavailable', 'Too many function calls are waiting.')
    }
    await new Promise<void>((resolve, reject) => {
      const giveUp = () => {
        if (this.#waiting.remove(owner, waiter)) reject(signal?.reason)
      }
      const forget = () => signal?.removeEventListener('abort', giveUp)
      const waiter: Waiter = {
        owner,
        serve: () => {
          forget()
          resolve()
        },
        refuse: (error) => {
          forget()
          reject(error)
        },
      }
      signal?.addEventListener('abort', giveUp, { once: true })
      this.#waiting.push(owner, waiter)
    })
  }

  /** Acquires a slot if one is free now. */
  tryAcquire(owner: string): boolean {
    if (this.#closed || !this.#mayHaveMore(owner)) return false
    this.#count(owner, 1)
    return true
  }

  release(owner: string): void {
    this.#count(owner, -1)
    this.serve()
  }

  /** To be called when the limit may have grown. */
  serve(): void {
    const next = () =>
      this.#waiting.shift(
        (owner) => this.#mayHaveMore(owner),
        (owner) => (this.#held.has(owner) ? 1 : 0),
      )
    for (let waiter = next(); waiter; waiter = next()) {
      this.#count(waiter.owner, 1)
      waiter.serve()
    }
  }

  /** Rejects all current and later waiters. */
  close(error: Error): void {
    this.#closed = error
    for (let waiter = this.#waiting.shift(); waiter; waiter = this.#waiting.shift()) waiter.refuse(error)
  }

  #mayHaveMore(owner: string): boolean {
    return mayTakeSlot(this.#limit(), { ofAll: this.#heldByAll, ofOwner: this.#held.get(owner) ?? 0 })
  }

  #count(owner: string, change: number): void {
    const held = (this.#held.get(owner) ?? 0) + change
    if (held === 0) this.#held.delete(owner)
    else this.#held.set(owner, held)
    this.#heldByAll += change
  }
}

/** A queue that serves its owners in turn: an owner with many waiting items does not delay one with a single item. */
export class FairQueue<Item> {
  /** Only owners that have something waiting, the next one first. */
  readonly #waiting = new Map<string, Item[]>()
  #size = 0

  get size(): number {
    return this.#size
  }

  /** How many have something waiting. */
  get owners(): number {
    return this.#waiting.size
  }

  push(owner: string, item: Item): void {
    const items = this.#waiting.get(owner)
    if (items) items.push(item)
    else this.#waiting.set(owner, [item])
    this.#size++
  }

  /** Whether any waiting owner fulfils the condition. */
  some(isSuch: (owner: string) => boolean): boolean {
    for (const owner of this.#waiting.keys()) if (isSuch(owner)) return true
    return false
  }

  /** All items, owner by owner. */
  *values(): Generator<Item> {
    for (const items of this.#waiting.values()) yield* items
  }

  /** The item whose turn it is; it stays. */
  get first(): Item | undefined {
    const [items] = this.#waiting.values()
    return items?.[0]
  }

  /** The item whose turn it is, of the owners that may have one; those of a lower rank come before all others. */
  shift(
    mayHave: (owner: string) => boolean = () => true,
    rankOf: (owner: string) => number = () => 0,
  ): Item | undefined {
    let chosen: string | undefined
    let least = Number.POSITIVE_INFINITY
    for (const owner of this.#waiting.keys()) {
      if (!mayHave(owner)) continue
      const rank = rankOf(owner)
      if (rank >= least) continue
      chosen = owner
      least = rank
    }
    return chosen === undefined ? undefined : this.#take(chosen)
  }

  /** The next one of an owner, whose turn is then over. */
  #take(owner: string): Item | undefined {
    const items = this.#waiting.get(owner)
    const item = items?.shift()
    this.#waiting.delete(owner)
    if (items && items.length > 0) this.#waiting.set(owner, items)
    this.#size--
    return item
  }

  /** Whether it was still waiting. */
  remove(owner: string, item: Item): boolean {
    const items = this.#waiting.get(owner)
    const index = items?.indexOf(item) ?? -1
    if (!items || index < 0) return false
    items.splice(index, 1)
    if (items.length === 0) this.#waiting.delete(owner)
    this.#size--
    return true
  }
}

export interface SlotsInUse {
  readonly ofAll: number
  readonly ofOwner: number
}

/** Slots of an owner whose functions brought processes down lately, and of all such owners. */
export interface SuspectSlots extends SlotsInUse {
  readonly ofSuspects: number
}

/** The slots that are not reserved, of four; of fewer slots none is reserved. */
const COMMON_SHARE = 3 / 4
const LEAST_SHARED_SLOTS = 4
/** Of one suspect, and of all of them. */
const SUSPECT_SHARE = 1 / 8
const SUSPECTS_SHARE = 1 / 2

/**
 * Whether an owner may have another slot. Most slots are first come, first served. The last quarter is reserved for
 * owners that have none yet, so that a new owner need not wait for the timeout of another owner's endless loop.
 */
export function mayTakeSlot(slots: number, { ofAll, ofOwner }: SlotsInUse): boolean {
  return ofAll < (ofOwner === 0 ? slots : commonSlots(slots))
}

/** The same for an owner whose functions ran into a time limit lately: it has fewer slots, and none of the reserved. */
export function mayTakeSlotAsSuspect(slots: number, { ofAll, ofOwner, ofSuspects }: SuspectSlots): boolean {
  if (ofOwner >= Math.ceil(SUSPECT_SHARE * slots) || ofSuspects >= Math.ceil(SUSPECTS_SHARE * slots)) return false
  return ofAll < commonSlots(slots)
}

function commonSlots(slots: number): number {
  return slots < LEAST_SHARED_SLOTS ? slots : Math.ceil(COMMON_SHARE * slots)
}

/** For whom something runs: slots are shared out fairly between owners. */
export interface Run {
  /** The database. */
  readonly owner: string
  readonly signal?: AbortSignal | undefined
}
