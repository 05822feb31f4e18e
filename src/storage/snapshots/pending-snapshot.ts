/** A snapshot of a file that is still being opened. Its state is that of the moment in which the file is open; reads wait for that. */
import { StorageError } from '../storage-error.ts'
import type { KeyRange, Page, PageLimits, SharedSnapshot } from '../store.ts'

export class PendingSnapshot implements SharedSnapshot {
  readonly #opening: Promise<SharedSnapshot>
  #released = false

  /** Takes the snapshot over that the promise resolves to. */
  constructor(opening: Promise<SharedSnapshot>) {
    this.#opening = opening
    // Whoever reads from it gets the error.
    opening.catch(() => {})
  }

  share(): SharedSnapshot {
    this.#assertHeld()
    return new PendingSnapshot(this.#opening.then((snapshot) => snapshot.share()))
  }

  async version(): Promise<number> {
    return (await this.#opened()).version()
  }

  async get(key: Uint8Array): Promise<Buffer | undefined> {
    return (await this.#opened()).get(key)
  }

  async getMany(keys: readonly Uint8Array[]): Promise<(Buffer | undefined)[]> {
    return (await this.#opened()).getMany(keys)
  }

  async page(range: KeyRange, limits?: PageLimits): Promise<Page> {
    return (await this.#opened()).page(range, limits)
  }

  async count(range: KeyRange): Promise<number> {
    return (await this.#opened()).count(range)
  }

  release(): void {
    if (this.#released) return
    this.#released = true
    // After reads and shares that began before.
    this.#opening.then(
      (snapshot) => snapshot.release(),
      () => {},
    )
  }

  [Symbol.dispose](): void {
    this.release()
  }

  #opened(): Promise<SharedSnapshot> {
    this.#assertHeld()
    return this.#opening
  }

  #assertHeld(): void {
    if (this.#released) throw new StorageError('The snapshot was released.')
  }
}
