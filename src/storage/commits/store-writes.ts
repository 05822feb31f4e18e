/**
 * What all engines do alike with the writes of one store: group commits, one rewrite of the whole store at a time, and the end
 * of all of them when the store is dropped.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { checkChanges, operationCount, valueBytes } from '../rows/packed-rows.ts'
import { StoreGoneError } from '../storage-error.ts'
import type { Changes, CommitOutcome } from '../store.ts'

export class StoreWrites {
  readonly #name: string
  readonly #queue: CommitQueue
  readonly #dropping = new AbortController()
  /** Aborts when the store is dropped. */
  readonly dropped: AbortSignal = this.#dropping.signal
  /** A replacement or a compaction of the whole store. */
  #rewriting: Promise<void> | undefined

  constructor(name: string, write: WriteGroup) {
    this.#name = name
    this.#queue = new CommitQueue(write)
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
    this.#dropping.abort(new StoreGoneError(this.#name))
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

/** What one group takes at most, beyond its first commit. */
const GROUP_OPERATIONS = 20_000
const GROUP_BYTES = 16 * 1024 * 1024

/** Writes a group as one; an outcome for each. If it throws, nothing of the group was written. */
export type WriteGroup = (group: readonly Changes[]) => Promise<CommitOutcome[]>

interface Waiting {
  readonly changes: Changes
  readonly resolve: (outcome: CommitOutcome) => void
  readonly reject: (error: unknown) => void
}

/**
 * Group commit: changes that arrive while a group is being written go together into the next one, so one flush serves them
 * all. One group at a time, in order of arrival. The number of waiting commits is bounded by the callers.
 */
class CommitQueue {
  readonly #write: WriteGroup
  readonly #waiting: Waiting[] = []
  #running = false
  #group: Promise<void> | undefined
  readonly #pauses = new Set<Promise<void>>()
  /** Resolves when the next group is written, or refused. */
  #next = Promise.withResolvers<void>()

  constructor(write: WriteGroup) {
    this.#write = write
  }

  add(changes: Changes): Promise<CommitOutcome> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ changes, resolve, reject })
      if (!this.#running) this.#run()
    })
  }

  /** Resolves when no group is being written and none will be before the returned function is called. */
  async pause(): Promise<() => void> {
    // Commits that wait for a pause come before the next pause: overlapping pauses would keep them waiting forever.
    while (this.#pauses.size > 0 && this.#waiting.length > 0) await this.#next.promise
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#pauses.add(promise)
    await this.#group
    return () => {
      this.#pauses.delete(promise)
      resolve()
    }
  }

  /** Refuses all that waits and lets the group under way finish. */
  async refuse(error: Error): Promise<void> {
    for (const { reject } of this.#waiting.splice(0)) reject(error)
    this.#endTurn()
    await this.#group
  }

  async #run(): Promise<void> {
    this.#running = true
    // Everything that this turn of the event loop brings goes into the first group. Who expects a version is a writer
    // that gathered its changes before: whatever else comes is not for the same state.
    if (this.#waiting[0]?.changes.expected === undefined) await nextTurn()
    while (this.#waiting.length > 0) {
      const [pause] = this.#pauses
      if (pause) {
        await pause
        continue
      }
      this.#group = this.#writeGroup(this.#nextGroup())
      await this.#group
      this.#group = undefined
      this.#endTurn()
    }
    this.#running = false
  }

  #endTurn(): void {
    this.#next.resolve()
    this.#next = Promise.withResolvers()
  }

  async #writeGroup(group: readonly Waiting[]): Promise<void> {
    try {
      const outcomes = await this.#write(group.map(({ changes }) => changes))
      for (const [i, { resolve }] of group.entries()) resolve(outcomes[i]!)
    } catch (error) {
      for (const { reject } of group) reject(error)
    }
  }

  /** A commit with clears stands alone: what it clears is looked up in the state that is on disk. So does one with a lease: it may be refused for itself. */
  #nextGroup(): Waiting[] {
    let operations = 0
    let bytes = 0
    let size = 0
    for (const { changes } of this.#waiting) {
      const alone = (changes.clears?.length ?? 0) > 0 || changes.lease !== undefined
      operations += operationCount(changes)
      bytes += valueBytes(changes)
      if (size > 0 && (alone || operations > GROUP_OPERATIONS || bytes > GROUP_BYTES)) break
      size++
      if (alone) break
    }
    return this.#waiting.splice(0, size)
  }
}

/** Which commits of a group may be applied, one after the other, to the state of a version. */
export interface Judgement {
  readonly outcomes: CommitOutcome[]
  readonly accepted: Changes[]
  /** After all that are accepted. */
  readonly version: number
}

/** `next` gives the version after a version. */
export function judge(
  group: readonly Changes[],
  before: number,
  next: (version: number) => number = (version) => version + 1,
): Judgement {
  let version = before
  const accepted: Changes[] = []
  const outcomes = group.map((changes): CommitOutcome => {
    if (changes.expected !== undefined && changes.expected !== version) return { outcome: 'stale', version }
    accepted.push(changes)
    if (!changes.unreferenced) version = next(version)
    return { outcome: 'committed', version }
  })
  return { outcomes, accepted, version }
}
