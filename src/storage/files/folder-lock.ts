/**
 * Locks on a data folder that the system takes back when their process dies, however it dies. Node has no file locks of
 * its own, but it brings SQLite, whose exclusive lock is one, also between two services in one process.
 *
 * There are two. The lease says whom the folder belongs to, and outlives a server that is restarted by its supervisor.
 * The lock says who has its files open: a server whose supervisor died holds it until it has ended. One that hangs then is
 * killed by the next server.
 */
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { ProcessRecords } from '../leases/process-records.ts'
import { DataFolderError } from '../storage-error.ts'

export interface FolderLock {
  release(): void
}

/** Takes the lease of a folder, or throws `DataFolderError`. */
export type TakeLease = (folder: string) => Promise<FolderLock>

const LEASE_FILE = 'lease'
const LOCK_FILE = 'lock'
/** Who holds the lock. */
const RECORDS = '.servers'

export const takeLease: TakeLease = async (folder) => {
  const lock = tryLock(folder, LEASE_FILE)
  if (!lock) throw inUse(folder)
  return lock
}

/** A server that lost its supervisor closes its files within this time. */
const ORPHAN_LIMIT_MS = 7_000
const WAIT_LIMIT_MS = 15_000
const POLL_MS = 20

/** For the holder of the lease. A server that hangs without its supervisor is killed, and reported. */
export async function takeLock(folder: string, onKilled: (pid: number) => void = () => {}): Promise<FolderLock> {
  const records = new ProcessRecords(join(folder, RECORDS))
  const begunMs = performance.now()
  let mayKill = true
  for (;;) {
    const lock = tryLock(folder, LOCK_FILE)
    if (lock) return recorded(lock, records)
    const waitedMs = performance.now() - begunMs
    if (waitedMs > WAIT_LIMIT_MS) throw inUse(folder)
    if (mayKill && waitedMs > ORPHAN_LIMIT_MS) {
      mayKill = false
      for (const pid of records.killOthers()) onKilled(pid)
    }
    await new Promise((resolve) => setTimeout(resolve, POLL_MS))
  }
}

function recorded(lock: FolderLock, records: ProcessRecords): FolderLock {
  records.clear()
  records.add()
  const release = () => {
    records.remove(process.pid)
    lock.release()
  }
  return { release }
}

/** Locks a file of the folder, which is created if it is missing. Undefined if the lock is taken. */
export function tryLock(folder: string, name: string): FolderLock | undefined {
  let file: DatabaseSync
  try {
    file = new DatabaseSync(join(folder, name), { timeout: 0 })
  } catch (error) {
    throw new DataFolderError(`The data folder ${folder} cannot be written: ${messageOf(error)}`)
  }
  try {
    // With a journal in memory nothing is written: a full disk does not keep anybody from reading.
    file.exec('PRAGMA journal_mode = MEMORY; PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE')
    return { release: () => file.close() }
  } catch (error) {
    file.close()
    if (/locked/.test(messageOf(error))) return undefined
    throw new DataFolderError(`The data folder ${folder} cannot be locked: ${messageOf(error)}`)
  }
}

function inUse(folder: string): DataFolderError {
  return new DataFolderError(`The data folder ${folder} is in use by another process.`)
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
