/** The open indexes, for metrics. Dropped ones are forgotten, at the latest when as many were opened as there are. */
import type { ViewIndex } from './view-index.ts'

/** What is asked of an index. */
type KnownIndex = Pick<ViewIndex, 'lag'> & { readonly place: { readonly store: { readonly dropped: boolean } } }

/** So few are not worth a look. */
const FEW = 64

export class OpenIndexes {
  readonly #indexes = new Set<KnownIndex>()
  #lookAt = FEW

  get size(): number {
    return this.#indexes.size
  }

  add(index: KnownIndex): void {
    this.#indexes.add(index)
    if (this.#indexes.size < this.#lookAt) return
    // A dropped index holds its database, with all that it keeps in memory.
    this.#forgetDropped()
    this.#lookAt = Math.max(FEW, 2 * this.#indexes.size)
  }

  /** How far each of them is behind its database, where that is known. */
  lags(): number[] {
    this.#forgetDropped()
    return [...this.#indexes].flatMap(({ lag }) => lag ?? [])
  }

  #forgetDropped(): void {
    for (const index of this.#indexes) if (index.place.store.dropped) this.#indexes.delete(index)
  }
}
