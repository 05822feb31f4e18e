/**
 * Which processes hold a lock of a folder, written down beside it. A process that hangs or was stopped keeps its lock after
 * the server it belonged to is dead. The next server finds it here and kills it; one that only has the same id is left alone.
 */

import { spawnSync } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

export class ProcessRecords {
  readonly #folder: string

  /** One file a process. The folder is made when the first one is written. */
  constructor(folder: string) {
    this.#folder = folder
  }

  /**
   * This process. To be called before it takes the lock, so that a process that finds the lock taken finds the record.
   */
  add(): void {
    try {
      mkdirSync(this.#folder, { recursive: true })
      writeFileSync(this.#pathOf(process.pid), `${processIdentity(process.pid)}\n`)
    } catch {
      // The disk is full. Then the next server cannot kill it, and waits for its end.
    }
  }

  remove(pid: number): void {
    try {
      rmSync(this.#pathOf(pid), { force: true })
    } catch {
      // The folder cannot be written any more. A record of a process that is gone does no harm.
    }
  }

  /** To be called when the lock is free. */
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

const BOOT_ID_FILE = '/proc/sys/kernel/random/boot_id'

/** Of what follows the name of the program in `/proc/<pid>/stat`. */
const STATE_FIELD = 0
const START_FIELD = 19

/**
 * Identifies a process by its start time, so that a later process with the same id is not mistaken for it. To be
 * checked before killing a process that is not a child. Undefined if it is gone.
 */
export function processIdentity(pid: number): string | undefined {
  const start = processStart(pid)
  return start === undefined ? undefined : `${bootId()} ${start}`
}

/** When it was started: on Linux in ticks since the system was, elsewhere as `ps` says it. Undefined when it is gone. */
export function processStart(pid: number): string | undefined {
  return process.platform === 'linux' ? startOnLinux(pid) : startElsewhere(pid)
}

function startOnLinux(pid: number): string | undefined {
  let text: string
  try {
    text = readFileSync(`/proc/${pid}/stat`, 'latin1')
  } catch {
    return undefined
  }
  // The name of the program may hold anything, closing brackets included.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  // A zombie has ended: it holds nothing but its id.
  return fields[STATE_FIELD] === 'Z' ? undefined : fields[START_FIELD]
}

function startElsewhere(pid: number): string | undefined {
  const { stdout, status } = spawnSync('ps', ['-o', 'lstart=', '-p', String(pid)], { encoding: 'utf8' })
  return status === 0 && stdout.trim() !== '' ? stdout.trim() : undefined
}

function bootId(): string {
  try {
    return readFileSync(BOOT_ID_FILE, 'utf8').trim()
  } catch {
    return '-'
  }
}
