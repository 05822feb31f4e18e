import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { describe, expect, it, onTestFinished } from 'vitest'
import type { Database } from '../../src/database/database.ts'
import type { RevisionId } from '../../src/document/ids.ts'
import { RequestError } from '../../src/document/request-error.ts'
import { silentLog } from '../../src/runtime/log/log.ts'
import { LmdbEngine } from '../../src/storage/lmdb/lmdb-engine.ts'
import { MemoryEngine } from '../../src/storage/memory/memory-engine.ts'
import type { ViewDesign } from '../../src/views/design/view-design.ts'
import { indexStoreName } from '../../src/views/index-store-name.ts'
import { STATE_KEY } from '../../src/views/layout/index-layout.ts'
import type { Freshness } from '../../src/views/reading/open-index.ts'
import type { Views } from '../../src/views/views.ts'
import { put, written } from '../database/test-database.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { design, lmdbViews, memoryViews, reducedOf, rowsOf, viewsOn } from './test-views.ts'

const BY_N = design({ views: { n: { map: 'function (doc) { emit(doc.n, null) }' } } })

describe.each([
  { engine: 'memory', open: memoryViews },
  { engine: 'LMDB', open: lmdbViews },
])('an index on $engine', ({ open }) => {
  it('is updated by a query, and only if there is something new', async () => {
    const { databases, views, functions } = await open()
    const database = await filled(databases, 3)
    expect(await keysOf(views, database)).toEqual([0, 1, 2])
    await write(database, 3)
    expect(await keysOf(views, database)).toEqual([0, 1, 2, 3])
    expect(await keysOf(views, database)).toEqual([0, 1, 2, 3])
    expect(functions.counts.mapped).toBe(4)
  })

  it('is empty, and stays so, for those who take it as it is', async () => {
    const { databases, views, functions } = await open()
    const database = await filled(databases, 3)
    expect(await keysOf(views, database, 'stale')).toEqual([])
    expect(functions.counts.mapped).toBe(0)
    expect(await views.information(database, BY_N)).toMatchObject({ updateSequence: 0, isUpdating: false })
  })

  it('is brought up to date afterwards for those who ask for that', async () => {
    const { databases, views } = await open()
    const database = await filled(databases, 3)
    expect(await keysOf(views, database, 'update after')).toEqual([])
    await expect.poll(() => keysOf(views, database, 'stale')).toEqual([0, 1, 2])
  })

  it('is rebuilt after several purges, and loses the purged rows after one', async () => {
    const { databases, views, functions } = await open()
    const database = await filled(databases, 4)
    await keysOf(views, database)
    await purge(database, '0')
    expect(await keysOf(views, database)).toEqual([1, 2, 3])
    expect(functions.counts.mapped).toBe(4)
    await purge(database, '1')
    await purge(database, '2')
    expect(await keysOf(views, database)).toEqual([3])
    expect(functions.counts.mapped).toBe(5)
    expect(await views.information(database, BY_N)).toMatchObject({ purgeSequence: 3 })
  })

  it('is rebuilt when a purge is forgotten during the update', async () => {
    const { databases, views, functions } = await open()
    const database = await filled(databases, 3)
    await keysOf(views, database)
    await purge(database, '0')
    await write(database, 3)
    let isForgotten = false
    functions.beforeMap = async () => {
      if (isForgotten) return
      isForgotten = true
      await purge(database, '1')
      await database.setPurgeLimit(1)
      database.compact()
      await database.compacted()
    }
    await keysOf(views, database)
    expect(isForgotten).toBe(true)
    expect(await keysOf(views, database)).toEqual([2, 3])
  })

  it('loses the rows of a purge that are too many for one commit, and maps nothing again', async () => {
    const { databases, views, functions } = await open()
    const database = await filled(databases, 0)
    const many = design({ views: { n: { map: 'function (doc) { for (var i = 0; i < 300; i++) emit(doc.n, i) }' } } })
    const documents = 290
    await written(database.write(Array.from({ length: documents }, (_, n) => put(`${n}`, { n }))))
    const rows = async () => {
      const index = await views.openIndex(database, many, 'updated')
      const found = await rowsOf(index.view('n')!)
      index.release()
      return found.length
    }
    expect(await rows()).toBe(300 * documents)
    const { mapped } = functions.counts
    using view = database.view()
    const purged = new Map<string, readonly RevisionId[]>()
    for (let n = 1; n < documents; n++) purged.set(`${n}`, [(await view.record(`${n}`))!.winner])
    view.release()
    await database.purge(purged)
    expect(await rows()).toBe(300)
    expect(functions.counts.mapped).toBe(mapped)
    expect(await views.information(database, many)).toMatchObject({ purgeSequence: 1 })
  })

  it('is rebuilt when it is ahead of its database, or of another database, or of another format', async () => {
    const { databases, views, functions, indexEngine } = await open()
    const database = await filled(databases, 3)
    await keysOf(views, database)
    const store = await indexEngine.open(indexStoreName(database.name, BY_N.signature))
    for (const wrong of [{ updateSequence: 1000 }, { uuid: 'another' }, { format: 'unheard of' }]) {
      using snapshot = store.snapshot()
      const state: object = JSON.parse((await snapshot.get(STATE_KEY))?.toString() ?? '')
      await store.commit({ puts: [[STATE_KEY, Buffer.from(JSON.stringify({ ...state, ...wrong }))]] })
      const before = functions.counts.mapped
      expect(await keysOf(views, database)).toEqual([0, 1, 2])
      expect(functions.counts.mapped - before).toBe(3)
    }
  })

  it('goes with its database, and one of the same name begins with nothing', async () => {
    const { databases, views, indexEngine } = await open()
    const database = await filled(databases, 3)
    await keysOf(views, database)
    await databases.delete('db')
    expect(await indexEngine.list()).toEqual([])
    await expect(keysOf(views, database)).rejects.toMatchObject({ kind: 'not found', reason: 'no_db_file' })
    const another = await filled(databases, 1)
    expect(await keysOf(views, another)).toEqual([0])
  })

  it('is compacted while it is read and brought up to date', async () => {
    const { databases, views } = await open()
    const database = await filled(databases, 200)
    await keysOf(views, database)
    await views.compact(database, BY_N)
    await write(database, 200)
    expect(await keysOf(views, database)).toHaveLength(201)
    await expect.poll(async () => (await views.information(database, BY_N)).isCompacting).toBe(false)
    expect(await keysOf(views, database)).toHaveLength(201)
  })

  it('records the sequence of the last update that changed its rows, view by view', async () => {
    const { databases, views } = await open()
    const database = await filled(databases, 2)
    const two = design({
      views: {
        small: { map: 'function (doc) { if (doc.n < 10) emit(doc.n, null) }' },
        large: { map: 'function (doc) { if (doc.n >= 10) emit(doc.n, null) }' },
      },
    })
    expect(await changesOf(views, database, two)).toEqual({ small: [2, 0], large: [0, 0] })
    const [revision] = await written(database.write([put('x', { n: 10 })]))
    expect(await changesOf(views, database, two)).toEqual({ small: [2, 0], large: [3, 0] })
    await database.write([put('x', { n: 10, other: true }, { parent: revision })])
    expect(await changesOf(views, database, two), 'the same row again').toEqual({ small: [2, 0], large: [3, 0] })
    await purge(database, '0')
    expect(await changesOf(views, database, two)).toEqual({ small: [2, 1], large: [3, 0] })
  })
})

describe('documents that are too much for a process at a time', () => {
  it('are mapped fewer at a time', async () => {
    const { databases, views, functions } = await memoryViews()
    const database = await filled(databases, 300)
    functions.beforeMap = async (documents) => {
      if (documents > 20) throw outOfMemory()
    }
    expect(await keysOf(views, database)).toEqual(Array.from({ length: 300 }, (_, n) => n))
  })

  it('fail if a single document is too much', async () => {
    const { databases, views, functions } = await memoryViews()
    const database = await filled(databases, 300)
    functions.beforeMap = async () => {
      throw outOfMemory()
    }
    await expect(keysOf(views, database)).rejects.toMatchObject({ kind: 'failed', error: 'os_process_error' })
  })

  function outOfMemory(): RequestError {
    return new RequestError('failed', 'os_process_error', '{exit_status,137}')
  }
})

describe('those who wait for an index', () => {
  it('share one run', async () => {
    const { databases, views, functions } = await memoryViews()
    const database = await filled(databases, 3)
    const all = await Promise.all(Array.from({ length: 5 }, () => keysOf(views, database)))
    expect(all).toEqual(Array.from({ length: 5 }, () => [0, 1, 2]))
    expect(functions.counts.mapped).toBe(3)
  })

  it('are counted, and the run is listed among the tasks', async () => {
    const { databases, views, functions, tasks } = await memoryViews()
    const database = await filled(databases, 150)
    const { promise: held, resolve: go } = Promise.withResolvers<void>()
    functions.beforeMap = () => held
    const waiting = [keysOf(views, database), keysOf(views, database)]
    await expect
      .poll(() => views.information(database, BY_N))
      .toMatchObject({ waitingClients: 2, isUpdating: true, updateSequence: 0 })
    const about = { type: 'indexer', database: 'db', design_document: '_design/test' }
    const amount = { changes_done: 0, total_changes: 150, progress: 0 }
    await expect.poll(() => tasks.list()).toMatchObject([{ ...about, ...amount }])
    go()
    await Promise.all(waiting)
    await expect.poll(() => tasks.list()).toEqual([])
    expect(await views.information(database, BY_N)).toMatchObject({ waitingClients: 0, isUpdating: false })
  })

  it('are served as soon as the state they asked for is reached', async () => {
    const { databases, views, functions } = await memoryViews()
    const database = await filled(databases, 1)
    await keysOf(views, database)
    await write(database, 1)
    const early = keysOf(views, database)
    const { promise: held, resolve: go } = Promise.withResolvers<void>()
    await early
    functions.beforeMap = () => held
    await write(database, 2)
    const late = keysOf(views, database)
    expect(await keysOf(views, database, 'stale')).toEqual([0, 1])
    go()
    expect(await late).toEqual([0, 1, 2])
  })

  it('all get the error of a run; the next one tries again', async () => {
    const { databases, views, functions } = await memoryViews()
    const database = await filled(databases, 2)
    functions.beforeMap = async () => {
      throw new RequestError('failed', 'map_runtime_error', 'It failed.')
    }
    const outcomes = await Promise.allSettled([keysOf(views, database), keysOf(views, database)])
    expect(outcomes).toMatchObject([
      { status: 'rejected', reason: { kind: 'failed', error: 'map_runtime_error' } },
      { status: 'rejected', reason: { kind: 'failed', error: 'map_runtime_error' } },
    ])
    functions.beforeMap = async () => {}
    expect(await keysOf(views, database)).toEqual([0, 1])
  })

  it('may give up, and leave the others waiting', async () => {
    const { databases, views, functions } = await memoryViews()
    const database = await filled(databases, 2)
    const { promise: held, resolve: go } = Promise.withResolvers<void>()
    functions.beforeMap = () => held
    const leaving = new AbortController()
    const first = views.openIndex(database, BY_N, 'updated', leaving)
    const second = keysOf(views, database)
    await expect.poll(async () => (await views.information(database, BY_N)).waitingClients).toBe(2)
    leaving.abort(new Error('I have to go.'))
    await expect(first).rejects.toThrow('I have to go.')
    go()
    expect(await second).toEqual([0, 1])
  })

  it('fail when the database is deleted', async () => {
    const { databases, views, functions, indexEngine } = await memoryViews()
    const database = await filled(databases, 2)
    const { promise: held, resolve: go } = Promise.withResolvers<void>()
    functions.beforeMap = () => held
    const waiting = keysOf(views, database)
    await expect.poll(async () => (await views.information(database, BY_N)).waitingClients).toBe(1)
    const deleting = databases.delete('db')
    await expect(waiting).rejects.toMatchObject({ kind: 'not found', error: 'not_found', reason: 'no_db_file' })
    go()
    await deleting
    expect(await indexEngine.list()).toEqual([])
  })
})

describe('indexes of a database', () => {
  it('are shared by design documents that say the same about views', async () => {
    const { databases, views, functions } = await memoryViews()
    const database = await filled(databases, 3)
    await keysOf(views, database)
    const same = design({
      shows: { a: 'function () {}' },
      views: { n: { map: 'function (doc) { emit(doc.n, null) }' } },
    })
    using index = await views.openIndex(database, same, 'updated')
    expect(index.signature).toBe(BY_N.signature)
    expect(functions.counts.mapped).toBe(3)
  })

  it('are removed when no design document has them any more', async () => {
    const { databases, views, indexEngine } = await memoryViews()
    const database = await filled(databases, 1)
    const members = { views: { n: { map: 'function (doc) { emit(doc.n, null) }' } } }
    const [revision] = await written(database.write([put('_design/test', members)]))
    await keysOf(views, database)
    const old = design({ views: { n: { map: 'function (doc) { emit(1) }' } } })
    const index = await views.openIndex(database, old, 'updated')
    await views.cleanup(database)
    expect(await indexEngine.list()).toEqual([indexStoreName('db', BY_N.signature)])
    expect(await rowsOf(index.view('n')!), 'a reader goes on').toHaveLength(1)
    index.release()
    await database.write([put('_design/test', {}, { parent: revision, deleted: true })])
    await views.cleanup(database)
    expect(await indexEngine.list()).toEqual([])
    expect(await keysOf(views, database)).toEqual([0])
  })

  it('are removed at the start when the database is gone', async () => {
    const indexEngine = new MemoryEngine()
    const engine = new MemoryEngine()
    const kept = ['kept', 'kept'.repeat(200)]
    for (const name of kept) await engine.create(name)
    // Of a long name the index has only a digest.
    const gone = ['gone', 'gone'.repeat(200), 'kept'.repeat(201)]
    for (const name of [...kept, ...gone]) await indexEngine.create(indexStoreName(name, BY_N.signature))
    await viewsOn(engine, indexEngine)
    expect(new Set(await indexEngine.list())).toEqual(new Set(kept.map((name) => indexStoreName(name, BY_N.signature))))
  })
})

describe('an index whose database is being deleted', () => {
  it('is refused to who asks again, and no promise is left that rejects unheard', async () => {
    const { engine, indexEngine } = await lmdbEngines()
    const { databases, views } = await viewsOn(engine, indexEngine)
    const database = await filled(databases, 3)
    await keysOf(views, database)
    await keysOf(views, database)
    // Keeps the deletion from getting to the indexes.
    const lease = engine.lend('db')
    const unheard: unknown[] = []
    const hear = (error: unknown) => unheard.push(error)
    process.on('unhandledRejection', hear)
    onTestFinished(() => {
      process.off('unhandledRejection', hear)
    })
    const removing = databases.delete('db')
    await nextTurn()
    await expect(keysOf(views, database)).rejects.toThrow('no_db_file')
    await lease.release()
    await removing
    await nextTurn()
    expect(unheard).toEqual([])
  })
})

describe('an index that goes while it is compacted', () => {
  it('is not an error in the log', async () => {
    const errors: unknown[] = []
    const log = { ...silentLog, error: (...what: unknown[]) => errors.push(what) }
    const { engine, indexEngine } = await lmdbEngines()
    const { databases, views } = await viewsOn(engine, indexEngine, log)
    const database = await filled(databases, 3000)
    await keysOf(views, database)
    await views.compact(database, BY_N)
    const [index] = await Promise.all([views.indexesOf('db'), indexEngine.drop(indexStoreName('db', BY_N.signature))])
    await index[0]?.compacted()
    expect(errors).toEqual([])
  })
})

describe('reductions', () => {
  it('are stored: a range costs a logarithm of calls, a change that of the rows about it', async () => {
    const { databases, views, functions } = await memoryViews()
    const database = await filled(databases, 3000)
    const sums = design({
      views: {
        n: {
          map: 'function (doc) { emit(doc.n, doc.n) }',
          reduce: 'function (keys, values) { return values.reduce(function (a, b) { return a + b }, 0) }',
        },
      },
    })
    using index = await views.openIndex(database, sums, 'updated')
    const built = { ...functions.counts }
    expect(built.reduced).toBeGreaterThanOrEqual(3000)
    expect(await reducedOf(index.view('n')!)).toBe((2999 * 3000) / 2)
    expect(functions.counts.reduced - built.reduced).toBeLessThan(100)
    expect(functions.counts.rereduced - built.rereduced).toBeLessThan(200)
    await write(database, 3000)
    const before = { ...functions.counts }
    using later = await views.openIndex(database, sums, 'updated')
    expect(functions.counts.reduced - before.reduced).toBeLessThan(300)
    expect(functions.counts.rereduced - before.rereduced).toBeLessThan(600)
    expect(await reducedOf(later.view('n')!)).toBe((3000 * 3001) / 2)
  })
})

async function lmdbEngines() {
  const folder = await temporaryFolder()
  const engine = await LmdbEngine.open({ folder })
  return { engine, indexEngine: await LmdbEngine.open({ folder: join(folder, 'indexes') }) }
}

async function filled(
  databases: Awaited<ReturnType<typeof memoryViews>>['databases'],
  documents: number,
): Promise<Database> {
  await databases.create('db')
  const database = await databases.get('db')
  if (documents > 0) await database.write(Array.from({ length: documents }, (_, n) => put(String(n), { n })))
  return database
}

async function write(database: Database, n: number): Promise<void> {
  await written(database.write([put(String(n), { n })]))
}

async function purge(database: Database, id: string): Promise<void> {
  using view = database.view()
  const record = await view.record(id)
  await database.purge(new Map([[id, [record!.winner]]]))
}

async function keysOf(views: Views, database: Database, freshness: Freshness = 'updated'): Promise<unknown[]> {
  using index = await views.openIndex(database, BY_N, freshness)
  return (await rowsOf(index.view('n')!)).map(({ key }) => key)
}

async function changesOf(views: Views, database: Database, of: ViewDesign): Promise<Record<string, number[]>> {
  using index = await views.openIndex(database, of, 'updated')
  return Object.fromEntries(
    [...of.views.keys()].map((name) => [name, [index.view(name)!.lastChange, index.view(name)!.lastPurge]]),
  )
}
