/** A queue that serves its owners in turn: who lets many wait does not hold up who lets one wait. */
export class FairQueue<Item> {
  /** Only owners that have something waiting, the next one first. */
  readonly #waiting = new Map<string, Item[]>()
  #size = 0

  get size(): number {
    return this.#size
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

  /** The item whose turn it is; it stays. */
  get first(): Item | undefined {
    const [items] = this.#waiting.values()
    return items?.[0]
  }

  /** The item whose turn it is, of the owners that may have one. */
  shift(mayHave: (owner: string) => boolean = () => true): Item | undefined {
    for (const [owner, items] of this.#waiting) {
      if (!mayHave(owner)) continue
      const item = items.shift()
      this.#waiting.delete(owner)
      if (items.length > 0) this.#waiting.set(owner, items)
      this.#size--
      return item
    }
    return undefined
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

/** What one owner may have of four places; of fewer it may have all. */
const SHARE = 3 / 4
const SHARED_PLACES = 4

/** How many of so many places one owner may have at a time, so that some are left to others. */
export function mostOfOneOwner(places: number): number {
  return places < SHARED_PLACES ? places : Math.ceil(SHARE * places)
}
