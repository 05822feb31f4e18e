/**
 * Keeps the processes that a server has started for a folder apart from those of the server before it. Each of them
 * holds the lock for as long as it lives, however it ends; a server waits at its start until it is free. Otherwise a
 * process that has not noticed yet that its server is dead could write beside those of the next one. A process that
 * does not end is killed.
 */
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as pause } from 'node:timers/promises'
import { DataFolderError } from '../storage-error.ts'
import { ProcessRecords } from './process-records.ts'

const LOCK_FILE = 'tenants'
const RECORDS = '.tenants'
const WAIT_MS = 30_000
const STEP_MS = 20
/** A process that outlives its server by this time has not noticed its end, or hangs. */
const GRACE_MS = 1000

/** Held until the process ends. */
const held: DatabaseSync[] = []

/** For a process that a server has started. It must look whether that server lives only after this. */
export function holdTenancy(folder: string): void {
  recordsOf(folder).add()
  const file = new DatabaseSync(join(folder, LOCK_FILE), { timeout: WAIT_MS })
  file.exec('BEGIN; SELECT count(*) FROM sqlite_master')
  held.push(file)
}

/** For the server: a process that it has started is gone. */
export function forgetTenant(folder: string, pid: number): void {
  recordsOf(folder).remove(pid)
}

/** For the server: resolves when no process of an earlier one is left. Those that it had to kill are reported. */
export async function awaitVacancy(folder: string, onKilled: (pid: number) => void = () => {}): Promise<void> {
  const records = recordsOf(folder)
  const begunMs = performance.now()
  const killed = new Set<number>()
  while (!isVacant(folder)) {
    const waitedMs = performance.now() - begunMs
    if (waitedMs > WAIT_MS) {
      throw new DataFolderError(`Processes of an earlier server still work in the folder ${folder}.`)
    }
    if (waitedMs > GRACE_MS) {
      // Again and again: one that was just being started when its server died may take the lock only now.
      for (const pid of records.killOthers()) {
        if (!killed.has(pid)) onKilled(pid)
        killed.add(pid)
      }
    }
    await pause(STEP_MS)
  }
  records.clear()
}

function recordsOf(folder: string): ProcessRecords {
  return new ProcessRecords(join(folder, RECORDS))
}

function isVacant(folder: string): boolean {
  const file = new DatabaseSync(join(folder, LOCK_FILE), { timeout: 0 })
  try {
    // With a journal in memory nothing is written: a full disk does not keep the server from starting.
    file.exec('PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE; ROLLBACK')
    return true
  } catch (error) {
    if (error instanceof Error && /locked/.test(error.message)) return false
    throw error
  } finally {
    file.close()
  }
}
