/**
 * The state of an index that was read last, kept for a moment: queries that follow each other closely read the same one,
 * and none but the first has to look for it. Whoever knows of a newer one says so.
 */
import type { SharedSnapshot } from '../../storage/store.ts'
import type { IndexState } from '../layout/index-state.ts'

/** Held so short, it keeps hardly a page of the file from being used again. */
const KEPT_MS = 20

export interface ReadState {
  readonly snapshot: SharedSnapshot
  readonly state: IndexState
}

export class RecentState {
  #read: ReadState | undefined
  #forgetting: NodeJS.Timeout | undefined

  get current(): ReadState | undefined {
    return this.#read
  }

  /** Takes the snapshot over. */
  keep(read: ReadState): void {
    this.forget()
    this.#read = read
    this.#forgetting = setTimeout(() => this.forget(), KEPT_MS).unref()
  }

  forget(): void {
    clearTimeout(this.#forgetting)
    this.#read?.snapshot.release()
    this.#read = undefined
  }
}
