/**
 * What all engines do alike with the writes of one store: group commits, one rewrite of the whole store at a time, and the end
 * of all of them when the store is dropped.
 */
import { checkChanges } from '../rows/packed-rows.ts'
import { StoreGoneError } from '../storage-error.ts'
import type { Changes, CommitOutcome } from '../store.ts'
import { CommitQueue, type WriteGroup } from './commit-queue.ts'

export class StoreWrites {
  readonly #name: string
  readonly #queue: CommitQueue
  readonly #dropped = new AbortController()
  /** A replacement or a compaction of the whole store. */
  #rewriting: Promise<void> | undefined

  constructor(name: string, write: WriteGroup) {
    this.#name = name
    this.#queue = new CommitQueue(write)
  }

  /** Aborts when the store is dropped. */
  get dropped(): AbortSignal {
    return this.#dropped.signal
  }

  /** Throws where the store is dropped. */
  assertThere(): void {
    if (this.dropped.aborted) throw new StoreGoneError(this.#name)
  }

  /** Throws where the changes are not valid. */
  commit(changes: Changes): Promise<CommitOutcome> {
    checkChanges(changes)
    this.assertThere()
    return this.#queue.add(changes)
  }

  /** Runs when no other rewrite does. */
  async replace(rewrite: () => Promise<void>): Promise<void> {
    while (this.#rewriting) await this.#rewriting.catch(() => {})
    this.assertThere()
    return this.#rewrite(rewrite)
  }

  /** Joins the rewrite that is running, if any: it leaves no garbage either. */
  async compact(rewrite: () => Promise<void>): Promise<void> {
    this.assertThere()
    return this.#rewriting ?? this.#rewrite(rewrite)
  }

  /** Resolves when no commit is being written and none will be before the returned function is called. */
  pauseCommits(): Promise<() => void> {
    return this.#queue.pause()
  }

  /** Another server dropped the store: everything from now on is refused. */
  lose(): void {
    this.#dropped.abort(new StoreGoneError(this.#name))
  }

  /** The same here: resolves when the commit or rewrite under way has ended. */
  async drop(): Promise<void> {
    this.lose()
    await this.#queue.refuse(new StoreGoneError(this.#name))
    await this.#rewriting?.catch(() => {})
  }

  #rewrite(rewrite: () => Promise<void>): Promise<void> {
    this.#rewriting = rewrite().finally(() => {
      this.#rewriting = undefined
    })
    return this.#rewriting
  }
}
