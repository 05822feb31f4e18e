/**
 * A process that opens and closes stores in turn: there are many more than it keeps open. It reports how much memory it has to
 * itself, time and again. Run: node --expose-gc openings.ts <folder> <stores> <openings>
 */
import assert from 'node:assert/strict'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { LmdbEngine } from '../../../src/storage/lmdb/lmdb-engine.ts'
import { privateMegabytes } from '../../support/private-memory.ts'
import { reportOf } from './reporting-process.ts'

export interface OpeningsOptions {
  readonly folder: string
  readonly stores: number
  readonly openings: number
}

/** So often the memory is measured. */
const REPORTS = 10

/**
 * Megabytes after each tenth of the openings. The process is run as the server is, but with one pool for all threads: what the
 * allocator keeps then depends less on which of them happened to be served at the same time.
 */
export function runOpenings({ folder, stores, openings }: OpeningsOptions): Promise<number[]> {
  return reportOf(import.meta.url, [folder, stores, openings], { MALLOC_ARENA_MAX: '1' })
}

async function work({ folder, stores, openings }: OpeningsOptions): Promise<number[]> {
  const engine = await LmdbEngine.open({ folder, idleFiles: Math.ceil(stores / 6) })
  const key = Buffer.from('name')
  const names = Array.from({ length: stores }, (_, i) => `store-${i}`)
  for (const name of names) await (await engine.create(name)).commit({ puts: [[key, Buffer.from(name)]] })
  const megabytes: number[] = []
  for (let opening = 1; opening <= openings; opening++) {
    const name = names[opening % stores]!
    const store = await engine.open(name)
    if (opening % 7 === 0) await store.commit({ puts: [[Buffer.from(`more ${opening % 100}`), key]] })
    using snapshot = store.snapshot()
    assert.equal(String(await snapshot.get(key)), name)
    // Files are closed, and what was closed is freed, between turns.
    await nextTurn()
    if (opening % Math.floor(openings / REPORTS) === 0) megabytes.push(await settled())
  }
  await engine.close()
  return megabytes
}

/** After what nobody needs was collected, and without the room that JavaScript keeps for more. */
async function settled(): Promise<number> {
  for (let round = 0; round < 3; round++) {
    globalThis.gc?.()
    await nextTurn()
  }
  const { heapTotal, heapUsed } = process.memoryUsage()
  return privateMegabytes('self') - (heapTotal - heapUsed) / 2 ** 20
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [, , folder = '', stores = '', openings = ''] = process.argv
  console.log(JSON.stringify(await work({ folder, stores: Number(stores), openings: Number(openings) })))
}
