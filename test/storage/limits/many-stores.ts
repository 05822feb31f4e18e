/**
 * A process with more stores than it may have files open. It creates, writes, reopens, reads and drops them all, checks
 * what it reads and reports after each part what it took. Run: node --expose-gc many-stores.ts <folder> <stores>
 */
import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { allDbs } from 'lmdb'
import { LmdbEngine } from '../../../src/storage/lmdb/lmdb-engine.ts'
import { reportOf } from './reporting-process.ts'

export interface Part {
  readonly part: string
  readonly ms: number
  readonly residentMegabytes: number
  readonly descriptors: number
  /** Databases that the library still knows of. */
  readonly known: number
}

export const IDLE_FILES = 50

/** As many at once as a busy server has. */
const AT_ONCE = 20

/** Runs the process as the server is run, and gives what it reports. */
export function runManyStores(folder: string, stores: number): Promise<Part[]> {
  return reportOf(import.meta.url, [folder, stores])
}

async function work(folder: string, count: number): Promise<Part[]> {
  const names = Array.from({ length: count }, (_, i) => `store-${i}`)
  const meter = new Meter()
  let engine = await LmdbEngine.open({ folder, idleFiles: IDLE_FILES })
  const key = Buffer.from('name')
  const check = async (name: string) => {
    using snapshot = (await engine.open(name)).snapshot()
    assert.equal(String(await snapshot.get(key)), name)
  }
  await meter.report('opened')
  await forEach(names, (name) => engine.create(name))
  await meter.report('created')
  await forEach(names, async (name) => (await engine.open(name)).commit({ puts: [[key, Buffer.from(name)]] }))
  await meter.report('written')
  await engine.close()
  await meter.report('closed')
  engine = await LmdbEngine.open({ folder, idleFiles: IDLE_FILES })
  assert.equal((await engine.list()).length, count)
  await meter.report('reopened')
  await forEach(names, check)
  await meter.report('read')
  await forEach(names, check)
  await meter.report('read again')
  await forEach(names, async (name) => (await engine.open(name)).compact())
  await meter.report('compacted')
  await forEach(names, (name) => engine.drop(name))
  await meter.report('dropped')
  await engine.close()
  assert.deepEqual(readdirSync(folder), ['.trash'])
  await meter.report('closed again')
  return meter.parts
}

async function forEach(names: readonly string[], work: (name: string) => Promise<unknown>): Promise<void> {
  const rest = names.values()
  await Promise.all(
    Array.from({ length: AT_ONCE }, async () => {
      for (const name of rest) await work(name)
    }),
  )
}

class Meter {
  readonly parts: Part[] = []
  #since = performance.now()

  async report(part: string): Promise<void> {
    const ms = Math.round(performance.now() - this.#since)
    // What holds memory outside of JavaScript lets go of it in the turns after it was collected.
    for (let i = 0; i < 3; i++) {
      globalThis.gc?.()
      await nextTurn()
    }
    this.parts.push({
      part,
      ms,
      residentMegabytes: Math.round(process.memoryUsage.rss() / 1e6),
      descriptors: readdirSync('/proc/self/fd').length,
      known: allDbs?.size ?? 0,
    })
    this.#since = performance.now()
  }
}

if (import.meta.main) console.log(JSON.stringify(await work(process.argv[2]!, Number(process.argv[3]))))
