/**
 * Another process on an LMDB file, which can be killed at any moment. Run: node other-process.ts <work> <path>
 *
 *   grow    writes rows until the file is far larger than it was, and ends
 *   hold    holds a state and says so
 *   write   commits for ever, and says so after the first one
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { LmdbEnvironment } from '../../../src/storage/lmdb/lmdb-environment.ts'

export const GROWN_ROWS = 6000
export const ROW_BYTES = 4000

export function startOther(work: 'grow' | 'hold' | 'write', path: string): ChildProcess {
  return spawn(process.execPath, ['--no-warnings', fileURLToPath(import.meta.url), work, path], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
}

/** Resolves when it has said that it is at work. */
export async function atWork(other: ChildProcess): Promise<void> {
  if (other.stdout) await once(other.stdout, 'data')
}

export function rowKey(row: number): Buffer {
  return Buffer.from(`row ${String(row).padStart(6, '0')}`)
}

async function work(what: string | undefined, path: string): Promise<void> {
  const environment = new LmdbEnvironment(path, { isShared: true, flush: what === 'write' })
  const say = () => process.stdout.write('at work\n')
  if (what === 'grow') {
    for (let row = 0; row < GROWN_ROWS; row++) {
      await environment.write((target) => target.put(rowKey(row), Buffer.alloc(ROW_BYTES, row)))
      if (row === 0) say()
    }
    await environment.close()
    return
  }
  if (what === 'hold') {
    environment.reader.beginRead()
    say()
    setInterval(() => {}, 60_000)
    return
  }
  for (let round = 1; ; round++) {
    const value = Buffer.alloc(ROW_BYTES, round)
    await environment.write((target) => {
      for (let row = 0; row < 200; row++) target.put(rowKey(row), value)
    })
    if (round === 1) say()
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await work(process.argv[2], process.argv[3] ?? '')
