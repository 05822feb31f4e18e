/**
 * Tells the processes that a server has started for a folder from those of a server before it. Each of them holds the lock
 * for as long as it lives, however it ends; a server waits at its start until nobody holds it. Otherwise a process that has
 * not noticed yet that its server is dead could write beside those of the next one.
 */
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as pause } from 'node:timers/promises'
import { DataFolderError } from '../storage-error.ts'

const LOCK_FILE = 'tenants'
const WAIT_MS = 30_000
const STEP_MS = 20

/** Held until the process ends. */
const held: DatabaseSync[] = []

/** For a process that a server has started. It must look whether that server lives only after this. */
export function holdTenancy(folder: string): void {
  const file = new DatabaseSync(join(folder, LOCK_FILE), { timeout: WAIT_MS })
  file.exec('BEGIN; SELECT count(*) FROM sqlite_master')
  held.push(file)
}

/** For the server: resolves when no process of an earlier one is left. */
export async function awaitVacancy(folder: string): Promise<void> {
  const deadline = performance.now() + WAIT_MS
  while (!isVacant(folder)) {
    if (performance.now() > deadline) {
      throw new DataFolderError(`Processes of an earlier server still work in the folder ${folder}.`)
    }
    await pause(STEP_MS)
  }
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
