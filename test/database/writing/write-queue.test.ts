import { describe, expect, it } from 'vitest'
import { Database } from '../../../src/database/database.ts'
import type { EditOutcome, NewRevisionEdit } from '../../../src/database/writing/edit.ts'
import { WriteMetrics } from '../../../src/database/writing/write-queue.ts'
import { MemoryEngine } from '../../../src/storage/memory/memory-engine.ts'
import { operationCount } from '../../../src/storage/rows/packed-rows.ts'
import { CommitFailedError, EngineUnavailableError, ValueTooLargeError } from '../../../src/storage/storage-error.ts'
import {
  type Changes,
  COMMIT_OPERATIONS_LIMIT,
  type CommitOutcome,
  type Put,
  type Store,
} from '../../../src/storage/store.ts'
import { checkDatabase } from '../check-database.ts'
import { local, put, surroundings, written } from '../test-database.ts'

/** A store whose commits can be watched, held up and made to fail. */
class WatchedStore implements Store {
  readonly #store: Store
  readonly commits: Changes[] = []
  /** Asked before each commit; what it throws is what the commit comes to. */
  before: () => Promise<CommitOutcome | undefined> = async () => undefined

  constructor(store: Store) {
    this.#store = store
  }

  get name() {
    return this.#store.name
  }

  get keepsValues() {
    return this.#store.keepsValues
  }

  get givesCopies() {
    return this.#store.givesCopies
  }

  get dropped() {
    return this.#store.dropped
  }

  snapshot() {
    return this.#store.snapshot()
  }

  async commit(changes: Changes): Promise<CommitOutcome> {
    this.commits.push(changes)
    return (await this.before()) ?? this.#store.commit(changes)
  }

  replace(portions: AsyncIterable<readonly Put[]>) {
    return this.#store.replace(portions)
  }

  compact() {
    return this.#store.compact()
  }

  sizes() {
    return this.#store.sizes()
  }

  isEmpty() {
    return this.#store.isEmpty()
  }
}

async function watched(): Promise<{ database: Database; store: WatchedStore }> {
  const store = new WatchedStore(await new MemoryEngine().create('test'))
  const database = await Database.create(store, surroundings())
  store.commits.length = 0
  return { database, store }
}

async function faultsOf(store: Store): Promise<string[]> {
  using snapshot = store.snapshot()
  return await checkDatabase(snapshot)
}

describe('the writer of a database', () => {
  it('says when edits are decided and only the disk is waited for', async () => {
    const { database, store } = await watched()
    const flush = Promise.withResolvers<undefined>()
    store.before = () => flush.promise
    const flushing = Promise.withResolvers<void>()
    let isWritten = false
    const writing = database
      .write([put('a', {})], () => flushing.resolve())
      .then((outcomes) => {
        isWritten = true
        return outcomes
      })
    await flushing.promise
    expect({ commits: store.commits.length, isWritten }).toEqual({ commits: 1, isWritten: false })
    flush.resolve(undefined)
    expect(await writing).toMatchObject([{ outcome: 'written' }])
  })

  it('commits together what arrives while a commit is under way', async () => {
    const { database, store } = await watched()
    const gate = Promise.withResolvers<undefined>()
    store.before = () => gate.promise
    const first = database.write([put('first', {})])
    await until(() => store.commits.length === 1)
    const others = Array.from({ length: 50 }, (_, i) => database.write([put(`other ${i}`, {})]))
    gate.resolve(undefined)
    await Promise.all([first, ...others].map(written))
    expect(store.commits).toHaveLength(2)
  })

  it('decides edits of one document that are committed together one after the other', async () => {
    const { database } = await watched()
    const outcomes = await Promise.all(Array.from({ length: 10 }, (_, i) => database.write([put('same', { i })])))
    expect(outcomes.flat().filter(({ outcome }) => outcome === 'written')).toHaveLength(1)
  })

  it('does not exceed the limits of a commit, except for a single request', async () => {
    const { database, store } = await watched()
    const request = (name: string, count: number) => Array.from({ length: count }, (_, i) => put(`${name} ${i}`, {}))
    await Promise.all([written(database.write(request('a', 1900))), written(database.write(request('b', 1900)))])
    expect(store.commits).toHaveLength(1)
    const three = ['c', 'd', 'e'].map((name) => written(database.write(request(name, 1900))))
    await Promise.all(three)
    expect(store.commits).toHaveLength(3)
  })

  it('writes a very large request in several commits, unless it must succeed as one', async () => {
    const { database, store } = await watched()
    const edits = (branching: boolean) => Array.from({ length: 5001 }, (_, i) => put(`d${i}`, {}, { branching }))
    const before = store.commits.length
    const revisions = await written(database.write(edits(false)))
    expect(revisions).toHaveLength(5001)
    expect(store.commits.length - before).toBe(3)
    await expect(database.write(edits(true))).rejects.toMatchObject({ kind: 'too large' })
    expect(await database.information()).toMatchObject({ documentCount: 5001, updateSequence: 5001 })
  })

  it('reports a failed commit to all its writers, and continues', async () => {
    const { database, store } = await watched()
    const [revision] = await written(database.write([put('before', {})]))
    store.before = async () => {
      store.before = async () => undefined
      throw new CommitFailedError('The commit could not be written.')
    }
    const failed = [
      database.write([put('a', {})]),
      database.write([put('b', {})]),
      database.write([put('before', { new: true }, { parent: revision })]),
    ]
    for (const { status } of await Promise.allSettled(failed)) expect(status).toBe('rejected')
    await written(database.write([put('a', {}), put('before', { newer: true }, { parent: revision })]))
    const { updateSequence, documentCount } = await database.information()
    expect([updateSequence, documentCount]).toEqual([3, 2])
    expect(await faultsOf(store)).toEqual([])
  })

  it('writes nothing and wakes no feed where no edit succeeds', async () => {
    const { database, store } = await watched()
    await written(database.write([put('a', {})]))
    const before = store.commits.length
    const announced: number[] = []
    database.onUpdate((sequence) => announced.push(sequence))
    const [conflict] = await database.write([put('a', { other: true })])
    const [missing] = await database.write([local('_local/none', {}, { deleted: true })])
    expect([conflict?.outcome, missing?.outcome]).toEqual(['refused', 'refused'])
    expect(store.commits).toHaveLength(before)
    expect(announced).toEqual([])
    await written(database.write([put('b', {})]))
    expect(announced).toEqual([2])
    expect(await faultsOf(store)).toEqual([])
  })

  it('splits a request that changes more rows than a commit takes', async () => {
    const { database, store } = await watched()
    const large = Array.from({ length: 3 }, (_, i) => withChunks(put(`large ${i}`, {}), 90_000))
    const [revisions, [innocent]] = await Promise.all([
      written(database.write(large)),
      database.write([put('innocent', {})]),
    ])
    expect(revisions).toHaveLength(3)
    expect(innocent?.outcome).toBe('written')
    expect((await database.information()).documentCount).toBe(4)
    expect(store.commits.every((changes) => operationCount(changes) <= COMMIT_OPERATIONS_LIMIT)).toBe(true)
  })

  it('refuses a single document that changes too many rows, and no other of its batch', async () => {
    const { database } = await watched()
    const [large, small] = await Promise.allSettled([
      database.write([withChunks(put('large', {}), COMMIT_OPERATIONS_LIMIT)]),
      database.write([put('small', {})]),
    ])
    expect(large).toMatchObject({ status: 'rejected', reason: { kind: 'too large' } })
    expect(small.status).toBe('fulfilled')
  })

  it('does not announce what was not committed', async () => {
    const { database, store } = await watched()
    const announced: number[] = []
    database.onUpdate((sequence) => announced.push(sequence))
    store.before = async () => {
      throw new CommitFailedError('The commit could not be written.')
    }
    await expect(database.write([put('a', {})])).rejects.toThrow(CommitFailedError)
    store.before = async () => undefined
    await written(database.write([put('a', {})]))
    expect(announced).toEqual([1])
  })

  it('continues after a failure of exclusive work', async () => {
    const { database, store } = await watched()
    store.before = async () => {
      store.before = async () => undefined
      throw new CommitFailedError('The commit could not be written.')
    }
    const limit = database.setRevisionLimit(5)
    const write = database.write([put('a', {})])
    await expect(limit).rejects.toThrow(CommitFailedError)
    await written(write)
    expect((await database.information()).revisionLimit).toBe(1000)
  })

  it('decides again when another writer committed first', async () => {
    const { database, store } = await watched()
    const other = await Database.open(store, surroundings())
    store.before = async () => {
      store.before = async () => undefined
      await written(other.write([put('a', { other: true })]))
      return undefined
    }
    const [outcome] = await database.write([put('a', {})])
    expect(outcome?.outcome).toBe('refused')
    await written(database.write([put('b', {})]))
    expect(await faultsOf(store)).toEqual([])
  })

  it('continues from the state of another writer, not from its own last one', async () => {
    const { database, store } = await watched()
    const other = await Database.open(store, surroundings())
    for (let i = 0; i < 6; i++) await written((i % 3 === 0 ? other : database).write([put(`document-${i}`, {})]))
    expect((await database.information()).updateSequence).toBe(6)
    expect(await faultsOf(store)).toEqual([])
  })

  it('gives up when other writers always commit first, with an error', async () => {
    const { database, store } = await watched()
    store.before = async () => ({ outcome: 'stale', version: 0 })
    await expect(database.write([put('a', {})])).rejects.toThrow('Other servers kept committing first')
    store.before = async () => undefined
    await written(database.write([put('a', {})]))
  })

  it('refuses writes that exceed the memory of the queue, and accepts them later', async () => {
    const { database, store } = await watched()
    const gate = Promise.withResolvers<undefined>()
    store.before = () => gate.promise
    // One buffer for all: what counts is what they are said to take.
    const body = Buffer.from(JSON.stringify({ text: 'x'.repeat(60 * 1024 * 1024) }))
    const large = (id: string) => [{ ...put(id, {}), body }]
    const waiting = Array.from({ length: 8 }, (_, i) => database.write(large(`document ${i}`)))
    await expect(database.write(large('too many'))).rejects.toMatchObject({ kind: 'unavailable' })
    gate.resolve(undefined)
    const outcomes: EditOutcome[] = (await Promise.all(waiting)).flat()
    expect(outcomes.every(({ outcome }) => outcome === 'written')).toBe(true)
    await written(database.write([put('too many', {})]))
  })
})

/** An edit that brings so many rows of an attachment. */
function withChunks(edit: NewRevisionEdit, chunks: number): NewRevisionEdit {
  const value = Buffer.alloc(1)
  const puts = Array.from({ length: chunks }, (_, i): Put => [Buffer.from(`a ${edit.id} ${i}`), value])
  const attachment = {
    name: 'f',
    contentType: 'text/plain',
    number: 1,
    length: chunks,
    md5: 'AAAAAAAAAAAAAAAAAAAAAA==',
    encoding: undefined,
    storedLength: chunks,
    storedMd5: 'AAAAAAAAAAAAAAAAAAAAAA==',
    revpos: undefined,
    puts,
  }
  return { ...edit, attachments: [attachment] }
}

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setImmediate(resolve))
}

describe('the last failure of a commit', () => {
  it('is one that others would have too', () => {
    const writes = new WriteMetrics()
    writes.failed(new ValueTooLargeError(1000), 'db')
    writes.failed(new EngineUnavailableError('It is away.'), 'db')
    expect(writes.lastFailure).toBeUndefined()
    writes.failed(new CommitFailedError('The disk is full.'), 'db')
    expect(writes.lastFailure).toMatchObject({ reason: 'The disk is full.' })
    writes.committed(1, 0, 0)
    expect(writes.lastFailure).toBeUndefined()
  })
})
