import { describe, expect, it, onTestFinished } from 'vitest'
import { Databases } from '../../src/database/databases.ts'
import { unhashedBody } from '../../src/document/revisions/new-revision.ts'
import { systemClock } from '../../src/runtime/clock.ts'
import { silentLog } from '../../src/runtime/log/log.ts'
import { Metrics } from '../../src/runtime/metrics.ts'
import { TaskRegistry } from '../../src/runtime/tasks.ts'
import { MemoryEngine } from '../../src/storage/memory/memory-engine.ts'
import { EngineUnavailableError } from '../../src/storage/storage-error.ts'
import type { StorageEngine, Store } from '../../src/storage/store.ts'

/** An engine that other servers seem to use. Its stores can be made unreadable, and receive signals when the test says so. */
class SharedEngine {
  readonly listeners = new Set<() => void | Promise<void>>()
  isAway = false
  readonly #engine: MemoryEngine

  constructor(engine: MemoryEngine) {
    this.#engine = engine
  }

  /** The databases of one of the servers. */
  databases(): Databases {
    const tasks = new TaskRegistry(systemClock, new Metrics())
    const databases = new Databases(this.engine, { clock: systemClock, log: silentLog, tasks })
    onTestFinished(() => databases.close())
    return databases
  }

  signal(): Promise<unknown> {
    return Promise.all([...this.listeners].map((listener) => listener()))
  }

  get engine(): StorageEngine {
    return new Proxy<StorageEngine>(this.#engine, {
      get: (target, name) => {
        if (name === 'open') return async (store: string) => this.#shared(await target.open(store))
        if (name === 'create') return async (store: string) => this.#shared(await target.create(store))
        const member: unknown = Reflect.get(target, name, target)
        return typeof member === 'function' ? member.bind(target) : member
      },
    })
  }

  #shared(store: Store): Store {
    const sharing = {
      watch: (listener: () => void | Promise<void>) => {
        this.listeners.add(listener)
        return () => this.listeners.delete(listener)
      },
      confirm: async () => {},
      nextNumber: async () => 1,
      settledBelow: async () => 0,
    }
    return new Proxy(store, {
      get: (target, name) => {
        if (name === 'sharing') return sharing
        if (name === 'snapshot' && this.isAway) throw new EngineUnavailableError('away')
        const member: unknown = Reflect.get(target, name, target)
        return typeof member === 'function' ? member.bind(target) : member
      },
    })
  }
}

describe('a commit of another server', () => {
  it('makes everything stale while its state cannot be read, which is tried again', async () => {
    const shared = new SharedEngine(new MemoryEngine())
    const databases = shared.databases()
    await databases.create('db')
    const database = await databases.get('db')
    let updates = 0
    database.onUpdate(() => {
      updates++
    })
    await shared.signal()
    const before = { updates, security: database.securityChanges }
    shared.isAway = true
    await shared.signal()
    expect(updates).toBeGreaterThan(before.updates)
    expect(database.securityChanges).toBeGreaterThan(before.security)
    const away = updates
    shared.isAway = false
    // Without another signal.
    await expect.poll(() => updates).toBeGreaterThan(away)
  })
  it('is published when a writer that changed nothing has seen it first', async () => {
    const engine = new MemoryEngine()
    const [here, there] = [new SharedEngine(engine), new SharedEngine(engine)]
    const writing = there.databases()
    await writing.create('db')
    const database = await here.databases().get('db')
    await here.signal()
    let updates = 0
    database.onUpdate(() => {
      updates++
    })
    await (await writing.get('db')).setRevisionLimit(7)
    // As an edit does that conflicts with what it finds.
    await database.exclusive(async (_, state) => ({ changes: {}, state, result: undefined }))
    await here.signal()
    expect(updates).toBe(1)
    await here.signal()
    expect(updates).toBe(1)
  })
})

describe('a write that makes caches of other nodes stale', () => {
  const edit = (id: string, body: string) => {
    const bytes = Buffer.from(body)
    return {
      kind: 'interactive',
      id,
      parent: undefined,
      deleted: false,
      body: bytes,
      term: unhashedBody(bytes),
    } as const
  }

  it.each(['written', 'purged'] as const)('is over when they know that a design document is %s', async (how) => {
    let told: PromiseWithResolvers<void> | undefined
    const tasks = new TaskRegistry(systemClock, new Metrics())
    const onCommit = ({ hasDesigns }: { readonly hasDesigns: boolean }) => (hasDesigns ? told?.promise : undefined)
    const databases = new Databases(new MemoryEngine(), { clock: systemClock, log: silentLog, tasks, onCommit })
    onTestFinished(() => databases.close())
    await databases.create('db')
    const database = await databases.get('db')
    const [outcome] = await database.write([edit('_design/a', '{}')])
    if (outcome?.outcome !== 'written') throw new Error('It is not written.')
    told = Promise.withResolvers()
    let isOver = false
    const writing = (
      how === 'purged'
        ? database.purge(new Map([['_design/a', [outcome.revision]]]))
        : database.write([edit('_design/b', '{}')])
    ).then(() => {
      isOver = true
    })
    await database.flush()
    await new Promise((resolve) => setImmediate(resolve))
    expect(isOver).toBe(false)
    told.resolve()
    await writing
  })
})
