/**
 * A map with room for so many entries. The one that was not used for the longest time makes room for a new one, or the
 * one that was used last: then a flood of new ones leaves those alone that are there.
 */
export class RecentMap<Value> {
  readonly #entries = new Map<string, Value>()
  readonly #evicted: 'oldest' | 'newest'
  #newest: string | undefined

  constructor(evicted: 'oldest' | 'newest' = 'oldest') {
    this.#evicted = evicted
  }

  get size(): number {
    return this.#entries.size
  }

  /** Getting one is using it. */
  get(key: string): Value | undefined {
    const value = this.#entries.get(key)
    if (value === undefined || key === this.#newest) return value
    this.#entries.delete(key)
    this.#entries.set(key, value)
    this.#newest = key
    return value
  }

  set(key: string, value: Value, room: number): void {
    const isNew = !this.#entries.delete(key)
    if (isNew && this.#evicted === 'newest' && this.#newest !== undefined && this.#entries.size >= room) {
      this.#entries.delete(this.#newest)
    }
    if (room > 0) this.#entries.set(key, value)
    this.#newest = key
    for (const oldest of this.#entries.keys()) {
      if (this.#entries.size <= room) break
      this.#entries.delete(oldest)
    }
  }

  delete(key: string): void {
    this.#entries.delete(key)
  }

  clear(): void {
    this.#entries.clear()
  }
}
