/** A file that is opened again while it is being closed: the process must keep its locks on it. */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { expect, it, onTestFinished } from 'vitest'
import { LmdbEngine } from '../../../src/storage/lmdb/lmdb-engine.ts'
import type { SharedSnapshot, Store } from '../../../src/storage/store.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const ROWS = 200
const COMMITS = 20

const keyOf = (row: number): Buffer => Buffer.from(`row-${row}`)

async function writeAll(store: Store, value: string): Promise<void> {
  const puts = Array.from({ length: ROWS }, (_, row) => [keyOf(row), Buffer.from(value.padEnd(100))] as const)
  await store.commit({ puts })
}

async function values(snapshot: SharedSnapshot): Promise<Set<string | undefined>> {
  const found = await Promise.all(Array.from({ length: ROWS }, (_, row) => snapshot.get(keyOf(row))))
  return new Set(found.map((value) => value?.toString().trim()))
}

/** The locks of all processes on a file, as the kernel lists them. */
function locksOn(path: string): string[] {
  const inode = `:${statSync(path).ino} `
  return readFileSync('/proc/locks', 'latin1')
    .split('\n')
    .filter((line) => line.includes(inode))
}

it('is still known to be in use when another process opens it', { timeout: 60_000 }, async () => {
  const folder = await temporaryFolder()
  const engine = await LmdbEngine.open({ folder, idleFiles: 0, isShared: true })
  onTestFinished(() => engine.close())
  const store = await engine.create('store')
  await writeAll(store, 'before')
  const path = engine.places()[0]?.path ?? ''
  const opener = fork(join(import.meta.dirname, 'opener.ts'), [path], { execArgv: ['--no-warnings'] })
  onTestFinished(() => {
    opener.kill('SIGKILL')
  })
  const first = store.snapshot()
  expect(await values(first)).toEqual(new Set(['before']))
  // The last user is gone, so the file is being closed when the next one comes.
  first.release()
  using snapshot = store.snapshot()
  expect(await values(snapshot)).toEqual(new Set(['before']))
  await nextTurn()
  // Without them the library of the other process resets what this one works with, which can block it for good.
  if (process.platform === 'linux') expect(locksOn(`${path}-lock`)).toHaveLength(2)
  opener.send('open')
  // It has opened and closed the file.
  for (const _ of ['opened', 'closed']) await once(opener, 'message')
  for (let commit = 0; commit < COMMITS; commit++) await writeAll(store, `after-${commit}`)
  // Where the other process found no lock, it took the file for unused and cleared the table of readers.
  expect(await values(snapshot)).toEqual(new Set(['before']))
})
