/**
 * Leases of other processes on the stores of an engine. A store with a lease keeps its file, and all earlier generations that
 * the holder may still read. Dropping a store revokes its leases and waits until all are released; no new ones are granted.
 */

/** Resolves when no commit is being written and none will be before the returned function is called. */
export type PauseCommits = () => Promise<() => void>

/** The store as the registry sees it. */
export interface LeasedStore {
  readonly dropped: boolean
  readonly path: string
  /** From now on it is the file at this path; at once, or not at all. Throws `MoveFailedError`. */
  moveTo(path: string): Promise<void>
  /** Keeps the file open here, whichever it is by then, until the returned function is called. Throws where it cannot be opened. */
  keepOpen(): () => void
  readonly pauseCommits: PauseCommits
}

export interface LeaseHost {
  /** A path that was never used before. */
  nextPath(): string
  /** Removes what an unfinished rewrite left at a path that was given out. */
  removeUnfinished(path: string): Promise<void>
  /** The reader slots of a dead holder are taken back. */
  clearReaders(): void
}

/** The right to open the file of a store in another process. */
export class StoreLease {
  /** The file that holds the store at the moment. */
  readonly path: string
  /** Aborted when the store has to go: the holder ends its work, closes the file and releases the lease. */
  readonly revoked: AbortSignal
  /** Set by a holder that writes to the store: pauses its commits. One function for all of its leases on the store. */
  pauseHolder: PauseCommits | undefined
  readonly #book: LeaseBook
  readonly #ended = Promise.withResolvers<void>()

  constructor(path: string, revoked: AbortSignal, book: LeaseBook) {
    this.path = path
    this.revoked = revoked
    this.#book = book
  }

  /** Resolves when the lease was released. */
  get ended(): Promise<void> {
    return this.#ended.promise
  }

  /** The holder opens the file: no commit is written from here until the returned function is called. */
  pauseCommits(): Promise<() => void> {
    return this.#book.pauseCommits()
  }

  /** The path to which the holder may rewrite the store. */
  nextPath(): string {
    return this.#book.nextPath()
  }

  /** The holder rewrote the store, to a path that it got here. Throws `MoveFailedError`: then the holder must not go on. */
  moveTo(path: string): Promise<void> {
    return this.#book.moveTo(path)
  }

  /** The holder has closed the file. */
  async release(): Promise<void> {
    await this.#book.end(this)
    this.#ended.resolve()
  }

  /** The holder is dead. */
  async abandon(): Promise<void> {
    try {
      this.#book.clearReaders()
    } finally {
      await this.release()
    }
  }
}

/** The leases of one store. */
interface LeaseBook {
  pauseCommits(): Promise<() => void>
  nextPath(): string
  moveTo(path: string): Promise<void>
  end(lease: StoreLease): Promise<void>
  clearReaders(): void
}

export class StoreLeases {
  readonly #store: LeasedStore
  readonly #host: LeaseHost
  /** With a function that releases the file here: it is never opened here while the holder writes to it. */
  readonly #leases = new Map<StoreLease, () => void>()
  readonly #revoking = new AbortController()
  /** Pauses of everybody's commits. */
  readonly #pauses = new Set<Promise<void>>()
  /** How many wait for their end. */
  #waiting = 0
  /** Resolves when nobody does any more. */
  #served = Promise.withResolvers<void>()
  /** Paths that were given out and that the store has not moved to. */
  readonly #unfinished = new Set<string>()
  readonly #book: LeaseBook = {
    pauseCommits: () => this.#store.pauseCommits(),
    nextPath: () => this.#nextPath(),
    moveTo: (path) => this.#moveTo(path),
    end: (lease) => this.#end(lease),
    clearReaders: () => this.#host.clearReaders(),
  }

  constructor(store: LeasedStore, host: LeaseHost) {
    this.#store = store
    this.#host = host
  }

  /**
   * Calls back in a turn in which everybody's commits are not paused. Only then is the store lent to a process that writes to it:
   * that would not know of the pause.
   */
  async whenUnpaused<T>(use: () => T): Promise<T> {
    if (this.#pauses.size === 0) return use()
    this.#waiting++
    try {
      while (this.#pauses.size > 0) await Promise.all(this.#pauses)
      return use()
    } finally {
      if (--this.#waiting === 0) {
        this.#served.resolve()
        this.#served = Promise.withResolvers()
      }
    }
  }

  /** The same as `pauseCommits` of the store, for the holders of leases too. */
  async pauseAllCommits(): Promise<() => void> {
    // Those that wait for the end of a pause come before the next one: overlapping pauses would keep them waiting forever.
    while (this.#waiting > 0) await this.#served.promise
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#pauses.add(promise)
    // Each holder once: commits that wait for its first pause would come before the second one, and neither would ever begin.
    const holders = new Set([...this.#leases.keys()].map(({ pauseHolder }) => pauseHolder))
    const pauses = [...holders].map((pause) => pause?.())
    const resumes = await Promise.all([this.#store.pauseCommits(), ...pauses])
    return () => {
      for (const resume of resumes) resume?.()
      this.#pauses.delete(promise)
      resolve()
    }
  }

  /** Throws where the file cannot be opened here: the holder must not write to it then. */
  lend(): StoreLease {
    const lease = new StoreLease(this.#store.path, this.#revoking.signal, this.#book)
    this.#leases.set(lease, this.#store.keepOpen())
    return lease
  }

  get isEmpty(): boolean {
    return this.#leases.size === 0
  }

  /** Resolves when the leases that there are now are released. */
  async returned(): Promise<void> {
    await Promise.all([...this.#leases.keys()].map(({ ended }) => ended))
  }

  /** Asks all holders to end; resolves when they did. */
  async revoke(reason: Error): Promise<void> {
    this.#revoking.abort(reason)
    await this.returned()
  }

  #nextPath(): string {
    const path = this.#host.nextPath()
    this.#unfinished.add(path)
    return path
  }

  async #moveTo(path: string): Promise<void> {
    // What was written for a store that is being dropped goes with the lease.
    if (this.#store.dropped || !this.#unfinished.has(path)) return
    const moved = this.#store.moveTo(path)
    if (this.#store.path === path) this.#unfinished.delete(path)
    await moved
  }

  /** Rewrites of one store share their process: what they left is theirs until the last of them is over. */
  async #end(lease: StoreLease): Promise<void> {
    const letGo = this.#leases.get(lease)
    if (!letGo) return
    if (this.#leases.size === 1) {
      const left = [...this.#unfinished]
      this.#unfinished.clear()
      // What cannot be removed now goes at the next start.
      await Promise.allSettled(left.map((path) => this.#host.removeUnfinished(path)))
    }
    this.#leases.delete(lease)
    letGo()
  }
}
