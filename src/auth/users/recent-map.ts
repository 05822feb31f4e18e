/** An LRU map of bounded size. */
export class RecentMap<Value> {
  readonly #entries = new Map<string, Value>()
  #newest: string | undefined

  get size(): number {
    return this.#entries.size
  }

  /** Marks the entry as used. */
  get(key: string): Value | undefined {
    const value = this.#entries.get(key)
    if (value === undefined || key === this.#newest) return value
    this.#entries.delete(key)
    this.#entries.set(key, value)
    this.#newest = key
    return value
  }

  set(key: string, value: Value, room: number): void {
    this.#entries.delete(key)
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
