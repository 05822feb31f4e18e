/**
 * The states of one store that long readings hold. A held state keeps its pages from being used again and takes a reader
 * slot of the engine, so it is let go when its reader stalls, when too many are held, or when the file grew too far
 * meanwhile. The reader goes on from a newer state and need not know.
 */

import type { Snapshot, Store } from '../store.ts'
import { RenewableSnapshot, type SnapshotKeeper } from './renewable-snapshot.ts'

export interface HoldingLimits {
  /** A reader that reads nothing for so long has stalled. */
  readonly idleMs: number
  /** States that idle readers hold at once. Well below the reader slots of an engine: short reads need some too. */
  readonly idleStates: number
  /** What the file may grow by while a state is held. */
  readonly growthBytes: number
}

const LIMITS: HoldingLimits = { idleMs: 5000, idleStates: 400, growthBytes: 64 * 1024 * 1024 }

/** Looked after so often, while any are open. */
const SWEEP_MS = 500

export class HeldStates {
  readonly #store: Store
  readonly #limits: HoldingLimits
  readonly #keeper: SnapshotKeeper = {
    used: (snapshot) => this.#idle.delete(snapshot),
    idle: (snapshot) => this.#fellIdle(snapshot),
    closed: (snapshot) => this.#closed(snapshot),
  }
  /** All that are open, with the size of the file when their state was first looked after. */
  readonly #open = new Map<RenewableSnapshot, number | undefined>()
  /** Since when nobody reads from them; the longest idle ones first. */
  readonly #idle = new Map<RenewableSnapshot, number>()
  /** To be let go as soon as nobody reads from them. */
  readonly #overdue = new Set<RenewableSnapshot>()
  #sweeping: NodeJS.Timeout | undefined

  constructor(store: Store, limits: Partial<HoldingLimits> = {}) {
    this.#store = store
    this.#limits = { ...LIMITS, ...limits }
  }

  /** The state as of now, for a reading that may last. Must be released. */
  snapshot(): RenewableSnapshot {
    return this.keep(this.#store.snapshot())
  }

  /** The same from the state of a snapshot of the store, which is taken over. */
  keep(held: Snapshot): RenewableSnapshot {
    const snapshot = new RenewableSnapshot(this.#store, held, this.#keeper)
    this.#open.set(snapshot, undefined)
    this.#fellIdle(snapshot)
    this.#sweeping ??= this.#sweepLater()
    return snapshot
  }

  #fellIdle(snapshot: RenewableSnapshot): void {
    if (this.#overdue.delete(snapshot)) {
      this.#letGo(snapshot)
      return
    }
    this.#idle.set(snapshot, performance.now())
    if (this.#idle.size <= this.#limits.idleStates) return
    const [longest] = this.#idle.keys()
    if (longest) this.#letGo(longest)
  }

  #closed(snapshot: RenewableSnapshot): void {
    this.#open.delete(snapshot)
    this.#idle.delete(snapshot)
    this.#overdue.delete(snapshot)
    if (this.#open.size > 0) return
    clearTimeout(this.#sweeping)
    this.#sweeping = undefined
  }

  #letGo(snapshot: RenewableSnapshot): void {
    this.#idle.delete(snapshot)
    if (snapshot.letGo()) this.#open.set(snapshot, undefined)
  }

  #sweepLater(): NodeJS.Timeout {
    const timer = setTimeout(async () => {
      await this.#sweep()
      // Meanwhile the last one may have been closed, and another one opened.
      if (this.#sweeping === timer) this.#sweeping = this.#sweepLater()
    }, SWEEP_MS)
    return timer.unref()
  }

  async #sweep(): Promise<void> {
    const stalledSince = performance.now() - this.#limits.idleMs
    for (const [snapshot, since] of this.#idle) {
      if (since > stalledSince) break
      this.#letGo(snapshot)
    }
    const fileBytes = await this.#fileBytes()
    if (fileBytes === undefined) return
    for (const [snapshot, before] of this.#open) {
      // Seen for the first time, or compacted: from here on it counts.
      if (before === undefined || fileBytes < before) this.#open.set(snapshot, fileBytes)
      else if (fileBytes - before <= this.#limits.growthBytes) continue
      else if (this.#idle.has(snapshot)) this.#letGo(snapshot)
      else this.#overdue.add(snapshot)
    }
  }

  async #fileBytes(): Promise<number | undefined> {
    try {
      return (await this.#store.sizes()).fileBytes
    } catch {
      // Dropped, or its disk fails: whoever reads from it will hear of that.
      return undefined
    }
  }
}
