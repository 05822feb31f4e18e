/**
 * Cache invalidation among the nodes and servers that have one database open. A commit made here that makes caches stale is
 * published to the others before its writer is answered. A commit made elsewhere invalidates the caches of this process and wakes the readers
 * that wait for changes. Other servers send signals without data: the state has the sequences at which design documents and
 * the security object were last written, so nothing else is read.
 */
import type { Log } from '../runtime/log/log.ts'
import type { Store } from '../storage/store.ts'
import type { DatabaseState } from './layout/keys.ts'

/** What a commit makes stale. */
export interface StaleCaches {
  /** Whether a design document was written. */
  readonly hasDesigns: boolean
  /** Whether the security object was set. */
  readonly hasSecurity: boolean
}

/** A commit as it is published to other nodes. */
export interface DatabaseCommit extends StaleCaches {
  readonly database: string
  readonly updateSequence: number
}

/** Whether other nodes must know of a commit before its writer is answered, so that none of them goes by what it has cached. */
export function isAwaited({ database, hasDesigns, hasSecurity }: DatabaseCommit, usersDatabase: string): boolean {
  return hasDesigns || hasSecurity || database === usersDatabase
}

/** Resolves when the other nodes have invalidated their caches; undefined where there are none. */
export type PublishCommit = (commit: DatabaseCommit) => Promise<void> | undefined

export interface InvalidationParts {
  readonly store: Store
  readonly log: Log
  /** Aborted when the database closes. */
  readonly closing: AbortSignal
  /** Given where there may be other nodes. */
  readonly publish: PublishCommit | undefined
  /** Reads the state as of now. */
  readState(): Promise<DatabaseState>
  /** Called before anything is decided or answered with the newer state. */
  onStale(stale: StaleCaches): void
  /** Another server has committed changes up to this sequence. */
  onChanges(updateSequence: number): void
  /** Anything may have changed; the database may be deleted or unreadable. Whoever waits for changes or caches some must read. */
  onUnknown(): void
}

/** The pause before a state that could not be read is read again. */
const RETRY_MS = 500

export class CacheInvalidation {
  readonly #parts: InvalidationParts
  readonly #stopWatching: (() => void) | undefined
  /** The newest state that the caches of this process match. */
  #last: DatabaseState | undefined
  /** The newest state that subscribers were notified of: writers see states that nobody else has seen. */
  #notified: DatabaseState | undefined
  #reading: Promise<void> | undefined
  /** A signal came that was not followed yet. */
  #isDue = false
  #publishing: Promise<void> | undefined
  #retry: NodeJS.Timeout | undefined

  constructor(parts: InvalidationParts) {
    this.#parts = parts
    this.#stopWatching = parts.store.sharing?.watch(() => this.#readSoon())
  }

  /** This process has committed a state; its own caches are up to date. */
  committed(state: DatabaseState): void {
    this.#last = state
    this.#notified = state
  }

  /** A state was read, whoever committed it: invalidates the caches that it makes stale. */
  saw(state: DatabaseState): void {
    const last = this.#last
    if (last && state.updateSequence < last.updateSequence) return
    this.#last = state
    const hasDesigns = !last || last.designsAt !== state.designsAt
    const hasSecurity = !last || last.securityAt !== state.securityAt
    if (hasDesigns || hasSecurity) this.#parts.onStale({ hasDesigns, hasSecurity })
  }

  /** Notifies other nodes of a commit that is on disk. */
  publish(updateSequence: number, stale: StaleCaches): Promise<void> | undefined {
    const { store, publish } = this.#parts
    const publishing = publish?.({ database: store.name, updateSequence, ...stale })
    if (!publishing) return undefined
    const both = Promise.all([this.#publishing, publishing]).then(() => {
      if (this.#publishing === both) this.#publishing = undefined
    })
    this.#publishing = both
    return both
  }

  /** The outcome of a write, when other nodes know of its commit. */
  async published<T>(written: Promise<T>): Promise<T> {
    const outcome = await written
    if (this.#publishing) await this.#publishing
    return outcome
  }

  async close(): Promise<void> {
    this.#stopWatching?.()
    clearTimeout(this.#retry)
    await this.#reading
  }

  /** Resolves when the caches match all commits so far. */
  #readSoon(): Promise<void> {
    this.#isDue = true
    this.#reading ??= this.#readWhileDue()
    return this.#reading
  }

  async #readWhileDue(): Promise<void> {
    const { store, closing, log } = this.#parts
    try {
      while (this.#isDue && !closing.aborted) {
        this.#isDue = false
        if (store.dropped) this.#parts.onUnknown()
        else await this.#read()
      }
    } catch (error) {
      // Deleted, or the engine is unavailable: no cache is valid until the state was read again.
      this.#last = undefined
      this.#notified = undefined
      this.#parts.onStale({ hasDesigns: true, hasSecurity: true })
      this.#parts.onUnknown()
      // The signal will not come again.
      clearTimeout(this.#retry)
      if (!store.dropped && !closing.aborted) this.#retry = setTimeout(() => void this.#readSoon(), RETRY_MS).unref()
      log.debug('The state that another server committed could not be read.', {
        database: store.name,
        error: String(error),
      })
    } finally {
      this.#reading = undefined
    }
  }

  async #read(): Promise<void> {
    const state = await this.#parts.readState()
    this.saw(state)
    const before = this.#notified
    const hasChanges =
      !before || state.updateSequence > before.updateSequence || state.purgeSequence > before.purgeSequence
    if (!hasChanges) return
    this.#notified = state
    this.#parts.onChanges(state.updateSequence)
  }
}
