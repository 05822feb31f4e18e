/** The writes of a transaction, carried out by the documented calls of the library. Slower than `write-instructions.ts`. */
import type { RootDatabase } from 'lmdb'
import { CommitFailedError } from '../storage-error.ts'
import { WriteCounter } from './file-room.ts'
import type { WriteTarget } from './write-instructions.ts'

type Operation = { readonly key: Uint8Array; readonly value: Uint8Array | undefined }

export class PromisedWrites implements WriteTarget {
  readonly counter = new WriteCounter()
  readonly #operations: Operation[] = []

  put(key: Uint8Array, value: Uint8Array): void {
    this.counter.put(key.length, value.length)
    this.#operations.push({ key, value })
  }

  putPart(block: Buffer, keyAt: number, valueAt: number, end: number): void {
    this.put(block.subarray(keyAt, valueAt), block.subarray(valueAt, end))
  }

  remove(key: Uint8Array): void {
    this.counter.remove()
    this.#operations.push({ key, value: undefined })
  }

  /** All of them as one durable transaction. */
  async carryOut(database: RootDatabase<Uint8Array, Uint8Array>): Promise<void> {
    try {
      await database.batch(() => {
        for (const { key, value } of this.#operations) {
          const done = value ? database.put(key, value) : database.remove(key)
          // The batch fails with them; they are not awaited.
          done.catch(() => {})
        }
      })
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error)
      throw new CommitFailedError(`The commit could not be written: ${reason}`, { cause: error })
    }
  }
}
