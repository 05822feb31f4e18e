/**
 * Follows what other servers commit to the store of a database: after a signal it reads the state, says what of the caches is
 * stale, and wakes whoever follows the database. The state itself tells at which sequences design documents and the security
 * object were written last, so nothing else is read.
 */
import type { Log } from '../runtime/log/log.ts'
import type { Store } from '../storage/store.ts'
import type { DatabaseState } from './layout/keys.ts'

/** What a commit of another server makes stale. */
export interface StaleCaches {
  readonly hasDesigns: boolean
  readonly hasSecurity: boolean
}

export interface ForeignCommitParts {
  readonly store: Store
  readonly log: Log
  /** Aborted when the database closes. */
  readonly closing: AbortSignal
  /** The state as of now. */
  readState(): Promise<DatabaseState>
  /** Called before anything is decided or answered with the newer state. */
  onStale(stale: StaleCaches): void
  /** There is a state with more changes. */
  onChanges(state: DatabaseState): void
  /** Whoever follows the database must look for themselves: it may be gone, or cannot be read. */
  wake(): void
}

export class ForeignCommits {
  readonly #parts: ForeignCommitParts
  readonly #stopWatching: (() => void) | undefined
  #last: DatabaseState | undefined
  #reading: Promise<void> | undefined
  #isDue = false

  constructor(parts: ForeignCommitParts) {
    this.#parts = parts
    this.#stopWatching = parts.store.sharing?.watch(() => this.#readSoon())
  }

  /** A state that this server has committed: its own caches know of it. */
  committed(state: DatabaseState): void {
    this.#last = state
  }

  /** A state that was read: what is stale in it is told, whoever committed it. */
  saw(state: DatabaseState): void {
    const last = this.#last
    if (last && state.updateSequence < last.updateSequence) return
    this.#last = state
    const hasDesigns = !last || last.designsAt !== state.designsAt
    const hasSecurity = !last || last.securityAt !== state.securityAt
    if (hasDesigns || hasSecurity) this.#parts.onStale({ hasDesigns, hasSecurity })
  }

  async close(): Promise<void> {
    this.#stopWatching?.()
    await this.#reading
  }

  /** Resolves when all signals that came so far were followed. */
  async settled(): Promise<void> {
    await this.#reading
  }

  #readSoon(): void {
    this.#isDue = true
    this.#reading ??= this.#readWhileDue()
  }

  async #readWhileDue(): Promise<void> {
    const { store, closing, log } = this.#parts
    try {
      while (this.#isDue && !closing.aborted) {
        this.#isDue = false
        if (store.dropped) this.#parts.wake()
        else await this.#read()
      }
    } catch (error) {
      // Gone, or out of reach: nothing that is kept counts until it was read again.
      this.#last = undefined
      this.#parts.onStale({ hasDesigns: true, hasSecurity: true })
      this.#parts.wake()
      log.debug('What another server wrote was not read.', { database: store.name, error: String(error) })
    } finally {
      this.#reading = undefined
    }
  }

  async #read(): Promise<void> {
    const before = this.#last
    const state = await this.#parts.readState()
    this.saw(state)
    const hasChanges =
      !before || state.updateSequence > before.updateSequence || state.purgeSequence > before.purgeSequence
    if (hasChanges) this.#parts.onChanges(state)
  }
}
