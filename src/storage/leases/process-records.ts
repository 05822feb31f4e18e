/**
 * Which processes hold a lock of a folder, written down beside it. A process that hangs or was stopped keeps its lock after
 * the server it belonged to is dead. The next server finds it here and kills it; one that only has the same id is left alone.
 */
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { processIdentity } from './process-identity.ts'

export class ProcessRecords {
  readonly #folder: string

  /** One file a process. The folder is made when the first one is written. */
  constructor(folder: string) {
    this.#folder = folder
  }

  /** This process. To be called before it takes the lock, so that whoever finds the lock taken finds the record. */
  add(): void {
    try {
      mkdirSync(this.#folder, { recursive: true })
      writeFileSync(this.#pathOf(process.pid), `${processIdentity(process.pid)}\n`)
    } catch {
      // The disk is full. Then nobody can kill it, and the next server waits for its end.
    }
  }

  remove(pid: number): void {
    try {
      rmSync(this.#pathOf(pid), { force: true })
    } catch {
      // The folder cannot be written any more. A record of a process that is gone does no harm.
    }
  }

  /** When nobody holds the lock. */
  clear(): void {
    for (const pid of this.#pids()) this.remove(pid)
  }

  /** Kills all others that still run, each with its process group where it leads one. Returns their ids. */
  killOthers(): number[] {
    return this.#pids().filter((pid) => pid !== process.pid && this.#isRunning(pid) && kill(pid))
  }

  #isRunning(pid: number): boolean {
    const identity = processIdentity(pid)
    if (identity === undefined) return false
    try {
      return readFileSync(this.#pathOf(pid), 'utf8').trim() === identity
    } catch {
      return false
    }
  }

  #pids(): number[] {
    try {
      return readdirSync(this.#folder).map(Number).filter(Number.isSafeInteger)
    } catch {
      return []
    }
  }

  #pathOf(pid: number): string {
    return join(this.#folder, String(pid))
  }
}

/** A stopped process dies of this too. */
function kill(pid: number): boolean {
  let isKilled = false
  for (const target of [-pid, pid]) {
    try {
      process.kill(target, 'SIGKILL')
      isKilled = true
    } catch {
      // It leads no group, or has just ended, or belongs to another user.
    }
  }
  return isKilled
}
