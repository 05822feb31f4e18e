/**
 * A snapshot for readings that may last as long as a slow client likes. While nobody reads from it, its state may be let
 * go, and the next read takes the newest one: each read is of one state, several only while they are pinned together.
 */
import { StorageError } from '../storage-error.ts'
import type { KeyRange, Page, PageLimits, Snapshot, Store } from '../store.ts'

/** Told when a snapshot comes into use and falls idle, and when it is released for good. */
export interface SnapshotKeeper {
  used(snapshot: RenewableSnapshot): void
  idle(snapshot: RenewableSnapshot): void
  closed(snapshot: RenewableSnapshot): void
}

export class RenewableSnapshot implements Snapshot {
  readonly #store: Store
  readonly #keeper: SnapshotKeeper
  #held: Snapshot | undefined
  #pins = 0
  #renewals = 0
  #released = false

  /** Takes over a snapshot of the store, whose state it begins with. */
  constructor(store: Store, held: Snapshot, keeper: SnapshotKeeper) {
    this.#store = store
    this.#keeper = keeper
    this.#held = held
  }

  /** How often it went on to a newer state. What was read before the last time may not be there any more. */
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

  /** Gives the state up, unless it is being read from or nothing can follow it. Says whether it is given up. */
  letGo(): boolean {
    if (this.#pins > 0 || this.#store.dropped) return false
    this.#held?.release()
    this.#held = undefined
    return true
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
    this.#held = this.#store.snapshot()
    this.#renewals++
    return this.#held
  }

  #unpin(): void {
    this.#pins--
    if (this.#pins === 0 && !this.#released) this.#keeper.idle(this)
  }
}
