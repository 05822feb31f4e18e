/**
 * The number of the newest transaction of an LMDB file, as its lock file has it. The readers and writers of all processes
 * begin with that state. A process that opens the file sets the number to what the meta pages said a moment before. Where
 * another process commits in that moment, its commit is forgotten: nobody reads it, and the next commit overwrites it. So
 * who opens a file that others write puts the number right, and a commit is only written upon the state that the writer
 * knows (`LmdbEnvironment.write`).
 */
import { closeSync, openSync, readSync, writeSync } from 'node:fs'

/** After two words that say what the file is. The lowest byte first, as everything of LMDB on the machines that it runs on here. */
const NUMBER_AT = 8
const NUMBER_BYTES = 8
/** Each commit that comes between takes another round. */
const MOST_ROUNDS = 1000

export class NewestTransaction {
  readonly #lockPath: string
  /** From the meta pages. */
  readonly #committed: () => number
  /**
   * Kept until the environment is closed: where a process closes a file, it loses its locks on it, those of the library
   * too.
   */
  #descriptor: number | undefined

  constructor(lockPath: string, committed: () => number) {
    this.#lockPath = lockPath
    this.#committed = committed
  }

  /** Has the lock file name the newest transaction. Returns whether it did not. */
  restore(): boolean {
    this.#descriptor ??= openSync(this.#lockPath, 'r+')
    const bytes = Buffer.alloc(NUMBER_BYTES)
    for (let round = 0; round < MOST_ROUNDS; round++) {
      const committed = BigInt(this.#committed())
      readSync(this.#descriptor, bytes, 0, NUMBER_BYTES, NUMBER_AT)
      if (bytes.readBigUInt64LE() >= committed) return round > 0
      bytes.writeBigUInt64LE(committed)
      writeSync(this.#descriptor, bytes, 0, NUMBER_BYTES, NUMBER_AT)
    }
    return true
  }

  /** Only after the environment. */
  close(): void {
    if (this.#descriptor !== undefined) closeSync(this.#descriptor)
    this.#descriptor = undefined
  }
}
