/**
 * A snapshot for replies to slow clients. While it is idle, it may be released; the next read then takes the newest
 * state. Each read is of one state, several only while they are pinned together.
 */
import { StorageError } from '../storage-error.ts'
import type { KeyRange, Moment, Page, PageLimits, Snapshot, Store } from '../store.ts'

/** Notified when a snapshot comes into use, falls idle, and is released for good. */
export interface SnapshotKeeper {
  used(snapshot: RenewableSnapshot): void
  idle(snapshot: RenewableSnapshot): void
  closed(snapshot: RenewableSnapshot): void
}

export class RenewableSnapshot implements Snapshot {
  readonly #store: Store
  readonly #keeper: SnapshotKeeper
  #beside: Snapshot | undefined
  #held: Snapshot | undefined
  #pins = 0
  #renewals = 0
  #released = false

  /** Takes over a snapshot of the store, whose state it begins with. It shares the moment of the other one, while that has one. */
  constructor(store: Store, held: Snapshot, keeper: SnapshotKeeper, beside?: Snapshot) {
    this.#store = store
    this.#keeper = keeper
    this.#held = held
    this.#beside = beside
  }

  /** While its state is released, that in which it will be read again. */
  get moment(): Moment | undefined {
    return this.#held?.moment ?? this.#beside?.moment
  }

  /** How often it moved to a newer state. What was read before may not exist any more. */
  get renewals(): number {
    return this.#renewals
  }

  /** Until it is disposed, all reads are of one state. To be held for as long as reading takes, never for a client. */
  pin(): Disposable {
    this.#state()
    if (this.#pins++ === 0) this.#keeper.used(this)
    let isPinned = true
    return {
      [Symbol.dispose]: () => {
        if (!isPinned) return
        isPinned = false
        this.#unpin()
      },
    }
  }

  async version(): Promise<number> {
    using _pin = this.pin()
    return await this.#state().version()
  }

  async get(key: Uint8Array): Promise<Buffer | undefined> {
    using _pin = this.pin()
    return await this.#state().get(key)
  }

  async getMany(keys: readonly Uint8Array[]): Promise<(Buffer | undefined)[]> {
    using _pin = this.pin()
    return await this.#state().getMany(keys)
  }

  async page(range: KeyRange, limits?: PageLimits): Promise<Page> {
    using _pin = this.pin()
    return await this.#state().page(range, limits)
  }

  async count(range: KeyRange): Promise<number> {
    using _pin = this.pin()
    return await this.#state().count(range)
  }

  /** Releases the state early, unless it is being read or cannot be renewed. Returns whether it was released. */
  releaseState(): boolean {
    if (this.#pins > 0 || this.#store.dropped) return false
    this.#held?.release()
    this.#held = undefined
    return true
  }

  /** What is read next is of the newest state, not of the moment of another snapshot; unless it is pinned. */
  renew(): void {
    this.#beside = undefined
    this.releaseState()
  }

  release(): void {
    if (this.#released) return
    this.#released = true
    this.#held?.release()
    this.#held = undefined
    this.#keeper.closed(this)
  }

  [Symbol.dispose](): void {
    this.release()
  }

  #state(): Snapshot {
    if (this.#released) throw new StorageError('The snapshot was released.')
    if (this.#held) return this.#held
    this.#held = this.#store.snapshot(this.#beside?.moment)
    this.#renewals++
    return this.#held
  }

  #unpin(): void {
    this.#pins--
    if (this.#pins === 0 && !this.#released) this.#keeper.idle(this)
  }
}

export interface HoldingLimits {
  /** A reader that reads nothing for this time has stalled. */
  readonly idleMs: number
  /** States that idle readers hold at once. Well below the reader slots of an engine: short reads need some too. */
  readonly idleStates: number
  /** What the file may grow by while a state is held. */
  readonly growthBytes: number
  /** Whether others wait for a state, where an engine has few: idle readers do not keep theirs then. */
  readonly isWaitedFor?: (() => boolean) | undefined
}

const LIMITS: HoldingLimits = { idleMs: 5000, idleStates: 400, growthBytes: 64 * 1024 * 1024 }

/** How often open ones are checked. */
const SWEEP_MS = 500
/** Whoever reads nothing for this time waits for a client, and others need not wait for both. */
const WAITED_FOR_IDLE_MS = 50

/**
 * The states of one store that slow readers hold. A held state keeps its pages from being reused and takes a reader slot,
 * so it is released when its reader stalls, when too many are held or others wait for one, or when the file grew too far
 * meanwhile. The reader continues from a newer state.
 */
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
  /** Idle snapshots with the time since when, the longest idle first. */
  readonly #idle = new Map<RenewableSnapshot, number>()
  /** To be released as soon as they are idle. */
  readonly #overdue = new Set<RenewableSnapshot>()
  #sweeping: NodeJS.Timeout | undefined

  constructor(store: Store, limits: Partial<HoldingLimits> = {}) {
    this.#store = store
    this.#limits = { ...LIMITS, ...store.holding, ...limits }
  }

  /** A snapshot of the current state, for a long read; beside another one where both are read. Must be released. */
  snapshot(beside?: Snapshot): RenewableSnapshot {
    return this.keep(this.#store.snapshot(beside?.moment), beside)
  }

  /** The same from the state of a snapshot of the store, which is taken over. */
  keep(held: Snapshot, beside?: Snapshot): RenewableSnapshot {
    const snapshot = new RenewableSnapshot(this.#store, held, this.#keeper, beside)
    this.#open.set(snapshot, undefined)
    this.#fellIdle(snapshot)
    this.#sweeping ??= this.#sweepLater()
    return snapshot
  }

  #fellIdle(snapshot: RenewableSnapshot): void {
    if (this.#overdue.delete(snapshot)) {
      this.#releaseState(snapshot)
      return
    }
    this.#idle.set(snapshot, performance.now())
    if (this.#idle.size <= this.#limits.idleStates) return
    const [longest] = this.#idle.keys()
    if (longest) this.#releaseState(longest)
  }

  #closed(snapshot: RenewableSnapshot): void {
    this.#open.delete(snapshot)
    this.#idle.delete(snapshot)
    this.#overdue.delete(snapshot)
    if (this.#open.size > 0) return
    clearTimeout(this.#sweeping)
    this.#sweeping = undefined
  }

  #releaseState(snapshot: RenewableSnapshot): void {
    this.#idle.delete(snapshot)
    if (snapshot.releaseState()) this.#open.set(snapshot, undefined)
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
    const { idleMs, isWaitedFor } = this.#limits
    const stalledSince = performance.now() - (isWaitedFor?.() ? Math.min(WAITED_FOR_IDLE_MS, idleMs) : idleMs)
    for (const [snapshot, since] of this.#idle) {
      if (since > stalledSince) break
      this.#releaseState(snapshot)
    }
    const fileBytes = await this.#fileBytes()
    if (fileBytes === undefined) return
    for (const [snapshot, before] of this.#open) {
      // Seen for the first time, or compacted: from here on it counts.
      if (before === undefined || fileBytes < before) this.#open.set(snapshot, fileBytes)
      else if (fileBytes - before <= this.#limits.growthBytes) continue
      else if (this.#idle.has(snapshot)) this.#releaseState(snapshot)
      else this.#overdue.add(snapshot)
    }
  }

  async #fileBytes(): Promise<number | undefined> {
    try {
      return (await this.#store.sizes()).fileBytes
    } catch {
      // Dropped, or its disk fails: the next read reports it.
      return undefined
    }
  }
}
