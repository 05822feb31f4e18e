import { describe, expect, it } from 'vitest'
import type { DatabaseEvent } from '../../src/database/database-services.ts'
import { Databases } from '../../src/database/databases.ts'
import { MemoryEngine } from '../../src/storage/memory/memory-engine.ts'
import { put, surroundings } from './test-database.ts'

async function followed() {
  const databases = new Databases(new MemoryEngine(), surroundings())
  const events: DatabaseEvent[] = []
  const stop = databases.onEvent((event) => events.push(event))
  await databases.create('db')
  return { databases, database: await databases.get('db'), events, stop }
}

const created = { type: 'created', db: 'db' }
const updated = { type: 'updated', db: 'db' }

describe('the events of databases', () => {
  it('have one update for all that is committed together, and one for each design document in it', async () => {
    const { database, events } = await followed()
    await Promise.all([
      database.write([put('a', {}), put('_design/x', {})]),
      database.write([put('b', {})]),
      database.write([put('_design/y', {})]),
    ])
    expect(events).toEqual([
      created,
      updated,
      { type: 'ddoc_updated', db: 'db', id: '_design/x' },
      { type: 'ddoc_updated', db: 'db', id: '_design/y' },
    ])
  })

  it('do not have what was refused, nor what fails', async () => {
    const { databases, database, events } = await followed()
    await database.write([put('a', {})])
    await database.write([put('a', {})])
    await expect(databases.create('db')).rejects.toThrow()
    await expect(databases.delete('other')).rejects.toThrow()
    expect(events).toEqual([created, updated])
  })

  it('have a compaction when it is done, and no updates for it', async () => {
    const { database, events } = await followed()
    const [outcome] = await database.write([put('a', {})])
    if (outcome?.outcome !== 'written') throw new Error('The document was refused.')
    await database.write([put('a', { new: true }, { parent: String(outcome.revision) })])
    database.compact()
    await database.compacted()
    expect(events).toEqual([created, updated, updated, { type: 'compacted', db: 'db' }])
  })

  it('end for a listener that unsubscribes', async () => {
    const { databases, events, stop } = await followed()
    stop()
    await databases.delete('db')
    expect(events).toEqual([created])
  })

  it('end with the deletion if another server deletes a database while it is being created', async () => {
    let isDeleted = false
    class DeletingEngine extends MemoryEngine {
      override async create(...parameters: Parameters<MemoryEngine['create']>) {
        const store = await super.create(...parameters)
        Object.defineProperty(store, 'dropped', { get: () => isDeleted })
        return store
      }
    }
    const databases = new Databases(new DeletingEngine(), surroundings())
    const events: DatabaseEvent[] = []
    databases.onEvent((event) => {
      events.push(event)
      isDeleted = true
    })
    await databases.create('db')
    expect(events).toEqual([created, { type: 'deleted', db: 'db' }])
  })
})

describe('a database that another server has created', () => {
  it('is there for those who wait for an attempt to create it', async () => {
    const engine = new MemoryEngine()
    await new Databases(engine, surroundings()).create('db')
    const databases = new Databases(engine, surroundings())
    const creating = databases.create('db')
    const getting = databases.get('db')
    await expect(creating).rejects.toThrow('already exists')
    expect((await getting).name).toBe('db')
  })
})
