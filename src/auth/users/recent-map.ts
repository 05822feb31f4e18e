/** A map with room for so many entries; the one that was not used for the longest time makes room for a new one. */
export class RecentMap<Value> {
  readonly #entries = new Map<string, Value>()
  #newest: string | undefined

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
