/** A snapshot that another one takes the place of while it is in use, for those who hold it and need not know. */
import type { KeyRange, Page, PageLimits, Snapshot } from '../../storage/store.ts'

export class PassingSnapshot implements Snapshot {
  #snapshot: Snapshot
  #hasPassed = false

  /** Takes the snapshot over. */
  constructor(snapshot: Snapshot) {
    this.#snapshot = snapshot
  }

  /** Reads go to what is made of the snapshot from now on. Once; afterwards it stays as it is. */
  pass(successor: (snapshot: Snapshot) => Snapshot): void {
    if (this.#hasPassed) return
    this.#hasPassed = true
    this.#snapshot = successor(this.#snapshot)
  }

  version(): Promise<number> {
    return this.#snapshot.version()
  }

  get(key: Uint8Array): Promise<Buffer | undefined> {
    return this.#snapshot.get(key)
  }

  getMany(keys: readonly Uint8Array[]): Promise<(Buffer | undefined)[]> {
    return this.#snapshot.getMany(keys)
  }

  page(range: KeyRange, limits?: PageLimits): Promise<Page> {
    return this.#snapshot.page(range, limits)
  }

  count(range: KeyRange): Promise<number> {
    return this.#snapshot.count(range)
  }

  release(): void {
    this.#snapshot.release()
  }

  [Symbol.dispose](): void {
    this.release()
  }
}
