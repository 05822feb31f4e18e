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

/** A lock file that environments of this process use: more than one where a file is opened again before it is closed. */
interface LockFile {
  readonly path: string
  environments: number
  /**
   * Kept until all of them are closed: where a process closes a file, it loses its locks on it, those of the library too.
   * Then other processes take the file for unused, and clear its locks and readers.
   */
  descriptor: number | undefined
}

const lockFiles = new Map<string, LockFile>()

export class NewestTransaction {
  readonly #lockFile: LockFile
  /** From the meta pages. */
  readonly #committed: () => number

  constructor(lockPath: string, committed: () => number) {
    this.#lockFile = lockFiles.get(lockPath) ?? { path: lockPath, environments: 0, descriptor: undefined }
    this.#lockFile.environments++
    lockFiles.set(lockPath, this.#lockFile)
    this.#committed = committed
  }

  /** Has the lock file name the newest transaction. Returns whether it did not. */
  restore(): boolean {
    this.#lockFile.descriptor ??= openSync(this.#lockFile.path, 'r+')
    const { descriptor } = this.#lockFile
    const bytes = Buffer.alloc(NUMBER_BYTES)
    for (let round = 0; round < MOST_ROUNDS; round++) {
      const committed = BigInt(this.#committed())
      readSync(descriptor, bytes, 0, NUMBER_BYTES, NUMBER_AT)
      if (bytes.readBigUInt64LE() >= committed) return round > 0
      bytes.writeBigUInt64LE(committed)
      writeSync(descriptor, bytes, 0, NUMBER_BYTES, NUMBER_AT)
    }
    return true
  }

  /** Only after the environment, and once. */
  close(): void {
    if (--this.#lockFile.environments > 0) return
    lockFiles.delete(this.#lockFile.path)
    if (this.#lockFile.descriptor !== undefined) closeSync(this.#lockFile.descriptor)
  }
}
