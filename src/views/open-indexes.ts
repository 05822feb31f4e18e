/** The open indexes, for metrics. They are held weakly: one that was dropped must not stay, and its database with it. */
import type { ViewIndex } from './view-index.ts'

/** What is asked of an index. */
type KnownIndex = Pick<ViewIndex, 'lag'> & { readonly place: { readonly store: { readonly dropped: boolean } } }

export class OpenIndexes {
  readonly #indexes = new Set<WeakRef<KnownIndex>>()
  readonly #collected = new FinalizationRegistry((index: WeakRef<KnownIndex>) => this.#indexes.delete(index))

  /** With those that were dropped and not collected yet. */
  get size(): number {
    return this.#indexes.size
  }

  add(index: KnownIndex): void {
    const known = new WeakRef(index)
    this.#indexes.add(known)
    this.#collected.register(index, known)
  }

  /** How far each of them is behind its database, where that is known. */
  lags(): number[] {
    const lags: number[] = []
    for (const known of this.#indexes) {
      const index = known.deref()
      if (index && !index.place.store.dropped && index.lag !== undefined) lags.push(index.lag)
    }
    return lags
  }
}
