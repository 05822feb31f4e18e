/** A queue that serves its owners in turn: who lets many wait does not hold up who lets one wait. */
export class FairQueue<Item> {
  /** Only owners that have something waiting, the next one first. */
  readonly #waiting = new Map<string, Item[]>()
  #size = 0

  get size(): number {
    return this.#size
  }

  /** How many have something waiting. */
  get owners(): number {
    return this.#waiting.size
  }

  push(owner: string, item: Item): void {
    const items = this.#waiting.get(owner)
    if (items) items.push(item)
    else this.#waiting.set(owner, [item])
    this.#size++
  }

  /** Whether any of those who wait is such an owner. */
  some(isSuch: (owner: string) => boolean): boolean {
    for (const owner of this.#waiting.keys()) if (isSuch(owner)) return true
    return false
  }

  /** All items, owner by owner. */
  *values(): Generator<Item> {
    for (const items of this.#waiting.values()) yield* items
  }

  /** The item whose turn it is; it stays. */
  get first(): Item | undefined {
    const [items] = this.#waiting.values()
    return items?.[0]
  }

  /** The item whose turn it is, of the owners that may have one; those of a lower rank come before all others. */
  shift(
    mayHave: (owner: string) => boolean = () => true,
    rankOf: (owner: string) => number = () => 0,
  ): Item | undefined {
    let chosen: string | undefined
    let least = Number.POSITIVE_INFINITY
    for (const owner of this.#waiting.keys()) {
      if (!mayHave(owner)) continue
      const rank = rankOf(owner)
      if (rank >= least) continue
      chosen = owner
      least = rank
    }
    return chosen === undefined ? undefined : this.#take(chosen)
  }

  /** The next one of an owner, whose turn is then over. */
  #take(owner: string): Item | undefined {
    const items = this.#waiting.get(owner)
    const item = items?.shift()
    this.#waiting.delete(owner)
    if (items && items.length > 0) this.#waiting.set(owner, items)
    this.#size--
    return item
  }

  /** Whether it was still waiting. */
  remove(owner: string, item: Item): boolean {
    const items = this.#waiting.get(owner)
    const index = items?.indexOf(item) ?? -1
    if (!items || index < 0) return false
    items.splice(index, 1)
    if (items.length === 0) this.#waiting.delete(owner)
    this.#size--
    return true
  }
}
