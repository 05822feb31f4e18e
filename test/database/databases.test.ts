import { setImmediate as nextTurn } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { Database } from '../../src/database/database.ts'
import { Databases } from '../../src/database/databases.ts'
import { IDENTITY_KEY } from '../../src/database/layout/keys.ts'
import { systemClock } from '../../src/runtime/clock.ts'
import { silentLog } from '../../src/runtime/log/log.ts'
import { TaskRegistry } from '../../src/runtime/tasks.ts'
import { LmdbEngine } from '../../src/storage/lmdb/lmdb-engine.ts'
import { MemoryEngine } from '../../src/storage/memory/memory-engine.ts'
import { FileDamagedError } from '../../src/storage/storage-error.ts'
import type { StorageEngine } from '../../src/storage/store.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { checkDatabase } from './check-database.ts'
import { memoryDatabase, put, surroundings } from './test-database.ts'

const NAME = 'db'
const ROUNDS = 20
const DOCUMENTS = 300
const SURROUNDINGS = { clock: systemClock, log: silentLog, tasks: new TaskRegistry(systemClock) }

const engines: readonly (readonly [string, () => Promise<StorageEngine>])[] = [
  ['memory', async () => new MemoryEngine()],
  ['LMDB', async () => LmdbEngine.open({ folder: await temporaryFolder() })],
]

describe('a database that is opened', () => {
  it('is not created again where rows are left without an identity', async () => {
    const { store } = await memoryDatabase()
    await store.commit({ deletes: [IDENTITY_KEY] })
    await expect(Database.open(store, surroundings())).rejects.toThrow(FileDamagedError)
  })
})

describe('databases that are closed', () => {
  it('wait for a deletion that is under way', async () => {
    const folder = await temporaryFolder()
    const engine = await LmdbEngine.open({ folder })
    const databases = new Databases(engine, SURROUNDINGS)
    await databases.create(NAME)
    const lease = engine.lend(NAME)
    const removing = databases.delete(NAME)
    let isClosed = false
    const closing = databases.close().then(() => {
      isClosed = true
    })
    for (let turn = 0; turn < 50; turn++) await nextTurn()
    expect(isClosed).toBe(false)
    await lease.release()
    await Promise.all([removing, closing])
    await engine.close()
    const next = await LmdbEngine.open({ folder })
    expect(await next.list()).toEqual([])
    await next.close()
  })
})

describe.each(engines)('a database in %s', (_, openEngine) => {
  it('has one identity and one writer, even if it is deleted and opened while it is created', async () => {
    const engine = await openEngine()
    const databases = new Databases(engine, SURROUNDINGS)
    for (let round = 0; round < ROUNDS; round++) {
      const making = databases.create(NAME)
      const removing = databases.delete(NAME)
      // Asked for from the very moment on at which there is something to open.
      for (let turn = 0; turn < 1000 && !engine.has(NAME); turn++) await nextTurn()
      const asked = [databases.get(NAME), databases.get(NAME)]
      await Promise.allSettled([making, removing, ...asked])
      await databases.create(NAME).catch(() => {})
      const database = await databases.get(NAME)
      await database.write(Array.from({ length: DOCUMENTS }, (__, i) => put(`${round}-${i}`, {})))
      expect((await new Databases(engine, SURROUNDINGS).get(NAME)).uuid).toBe(database.uuid)
      using snapshot = (await engine.open(NAME)).snapshot()
      expect(await checkDatabase(snapshot)).toEqual([])
      snapshot.release()
      await databases.delete(NAME)
    }
    await engine.close()
  })
})
