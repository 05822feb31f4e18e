/**
 * A snapshot of one index for queries whose clients may take their time. It may go on to newer states of that index, and
 * never to one of an index that was built anew in its place: a query that meets one fails.
 */
import type { RenewableSnapshot } from '../../storage/snapshots/renewable-snapshot.ts'
import type { KeyRange, Page, PageLimits, Snapshot } from '../../storage/store.ts'
import { readState } from '../layout/index-state.ts'

export class SameIndexSnapshot implements Snapshot {
  readonly #snapshot: RenewableSnapshot
  readonly #databaseUuid: string
  readonly #salt: string
  #checked: number

  /** The salt tells one building of an index from another. */
  constructor(snapshot: RenewableSnapshot, databaseUuid: string, salt: string) {
    this.#snapshot = snapshot
    this.#databaseUuid = databaseUuid
    this.#salt = salt
    this.#checked = snapshot.renewals
  }

  version(): Promise<number> {
    return this.#reading((snapshot) => snapshot.version())
  }

  get(key: Uint8Array): Promise<Buffer | undefined> {
    return this.#reading((snapshot) => snapshot.get(key))
  }

  getMany(keys: readonly Uint8Array[]): Promise<(Buffer | undefined)[]> {
    return this.#reading((snapshot) => snapshot.getMany(keys))
  }

  page(range: KeyRange, limits?: PageLimits): Promise<Page> {
    return this.#reading((snapshot) => snapshot.page(range, limits))
  }

  count(range: KeyRange): Promise<number> {
    return this.#reading((snapshot) => snapshot.count(range))
  }

  release(): void {
    this.#snapshot.release()
  }

  [Symbol.dispose](): void {
    this.release()
  }

  async #reading<T>(read: (snapshot: Snapshot) => Promise<T>): Promise<T> {
    using _pin = this.#snapshot.pin()
    const { renewals } = this.#snapshot
    if (renewals !== this.#checked) {
      const state = await readState(this.#snapshot, this.#databaseUuid)
      if (state?.salt !== this.#salt) throw new Error('The index was built anew while it was read.')
      this.#checked = renewals
    }
    return await read(this.#snapshot)
  }
}
