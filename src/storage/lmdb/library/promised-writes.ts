/** The writes of a transaction, carried out by the documented calls of the library. Slower than `write-instructions.ts`. */
import type { RootDatabase } from 'lmdb'
import { CommitFailedError } from '../../storage-error.ts'
import { WriteCounter } from '../file-room.ts'
import type { WriteCondition, WriteTarget } from './write-instructions.ts'

type Operation = { readonly key: Uint8Array; readonly value: Uint8Array | undefined }

export class PromisedWrites implements WriteTarget {
  readonly counter = new WriteCounter()
  readonly #operations: Operation[] = []
  #hasBegun = false

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

  /** Whether the transaction was begun. */
  get hasBegun(): boolean {
    return this.#hasBegun
  }

  /** All of them as one durable transaction. False where the condition does not hold in it, and nothing was written. */
  async carryOut(
    database: RootDatabase<Uint8Array, Uint8Array>,
    condition: WriteCondition | undefined,
  ): Promise<boolean> {
    try {
      // A transaction in the transaction: if a row is refused, none is written.
      return await database.childTransaction(() => {
        this.#hasBegun = true
        if (condition && !holds(condition, database.getBinary(condition.key))) return false
        for (const { key, value } of this.#operations) {
          if (value) database.putSync(key, value)
          else database.removeSync(key)
        }
        return true
      })
    } catch (error) {
      const cause = await causeOf(error)
      const reason = cause instanceof Error ? cause.message : String(cause)
      throw new CommitFailedError(`The commit could not be written: ${reason}`, { cause })
    }
  }
}

/** An error of the library carries a promise that is rejected with the cause. Nobody else handles it. */
async function causeOf(error: unknown): Promise<unknown> {
  try {
    if (error instanceof Error && 'commitError' in error) await error.commitError
    return error
  } catch (cause) {
    return cause
  }
}

function holds({ value }: WriteCondition, found: Buffer | undefined): boolean {
  if (value === undefined) return found?.every((byte) => byte === 0) ?? true
  return found?.equals(value) ?? false
}
