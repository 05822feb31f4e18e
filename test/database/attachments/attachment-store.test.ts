import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { CHUNK_BYTES } from '../../../src/database/attachments/chunk-writer.ts'
import { Database } from '../../../src/database/database.ts'
import { ATTACHMENT_PREFIX, afterPrefix } from '../../../src/database/layout/keys.ts'
import { LmdbEngine } from '../../../src/storage/lmdb/lmdb-engine.ts'
import { CommitFailedError } from '../../../src/storage/storage-error.ts'
import type { Store } from '../../../src/storage/store.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { memoryDatabase, put, surroundings, written } from '../test-database.ts'

/** So many chunks do not fit into the memory of one upload. */
const MANY = 40

async function storedChunks(store: Store): Promise<number> {
  using snapshot = store.snapshot()
  const range = { from: ATTACHMENT_PREFIX, to: afterPrefix(ATTACHMENT_PREFIX) }
  return (await snapshot.page(range, { rows: 1000, keysOnly: true })).length
}

/** As many chunks of bytes, in pieces of another size, and then an end that may be a bad one. */
async function* content(chunks: number, end: () => Promise<void> = async () => {}): AsyncGenerator<Buffer> {
  for (let left = chunks * CHUNK_BYTES; left > 0; left -= 100_000) yield Buffer.alloc(Math.min(left, 100_000), 'x')
  await end()
}

describe('the bytes of attachments', () => {
  it('are freed as soon as they are stored, where nobody else uses the pieces', async () => {
    const { database } = await memoryDatabase()
    const pieces = [Buffer.allocUnsafeSlow(65_536).fill('a'), Buffer.allocUnsafeSlow(300_000).fill('b')]
    async function* fed() {
      for (const piece of pieces) yield piece
    }
    const kept = await database.attachments.stage(fed())
    expect(pieces.map(({ length }) => length)).toEqual([65_536, 300_000])
    const freed = await database.attachments.stage(fed(), { freesPieces: true })
    expect(pieces.map(({ length }) => length)).toEqual([0, 0])
    expect(freed.content.md5).toBe(kept.content.md5)
  })

  it('are freed when their document is on disk, and not when it is refused', async () => {
    const engine = await LmdbEngine.open({ folder: await temporaryFolder() })
    onTestFinished(() => engine.close())
    const database = await Database.create(await engine.create('test'), surroundings())
    const edit = async () => {
      const bytes = Buffer.allocUnsafeSlow(50_000).fill('a')
      const { content: stored, puts } = await database.attachments.stageWhole(bytes)
      const attachment = { ...stored, name: 'a', contentType: 'application/octet-stream', revpos: undefined, puts }
      return { bytes, stored, edit: { ...put('document', {}), attachments: [attachment] } }
    }
    const first = await edit()
    const second = await edit()
    await written(database.write([first.edit]))
    expect(first.bytes.length).toBe(0)
    expect((await database.write([second.edit]))[0]?.outcome).toBe('refused')
    expect(second.bytes.equals(Buffer.alloc(50_000, 'a'))).toBe(true)
    const pieces = await Array.fromAsync(database.attachments.read(first.stored))
    expect(Buffer.concat(pieces).equals(second.bytes)).toBe(true)
  })

  it('are kept when the store continues to use the buffers that it was given', async () => {
    const { database } = await memoryDatabase()
    const whole = await database.attachments.stageWhole(Buffer.alloc(50_000, 'a'))
    const { content: stored, puts } = whole
    const attachment = { ...stored, name: 'a', contentType: 'application/octet-stream', revpos: undefined, puts }
    await written(database.write([{ ...put('document', {}), attachments: [attachment] }]))
    expect(database.attachments.givesCopies).toBe(false)
    const pieces = await Array.fromAsync(database.attachments.read(stored))
    expect(Buffer.concat(pieces).equals(Buffer.alloc(50_000, 'a'))).toBe(true)
  })

  it('of known length take few commits: their last megabytes belong to that of the document', async () => {
    const { database, store } = await memoryDatabase()
    const commit = vi.spyOn(store, 'commit')
    const sentBytes = MANY * CHUNK_BYTES
    const { puts } = await database.attachments.stage(content(MANY), { sentBytes })
    expect(commit).toHaveBeenCalledTimes(1)
    expect(puts).toHaveLength(MANY - (await storedChunks(store)))
    commit.mockClear()
    const small = await database.attachments.stage(content(MANY / 2), { sentBytes: sentBytes / 2 })
    expect(commit).not.toHaveBeenCalled()
    expect(small.puts).toHaveLength(MANY / 2)
  })

  it('are committed on the way also where more come than were announced', async () => {
    const { database, store } = await memoryDatabase()
    const { puts } = await database.attachments.stage(content(3 * MANY), { sentBytes: 1 })
    expect(puts.length).toBeLessThan(MANY)
    expect(puts.length + (await storedChunks(store))).toBe(3 * MANY)
  })

  it('of an aborted upload are removed without compaction', async () => {
    const { database, store } = await memoryDatabase()
    let storedBefore = 0
    const broken = content(MANY, async () => {
      await expect.poll(() => storedChunks(store)).toBeGreaterThan(0)
      storedBefore = await storedChunks(store)
      throw new Error('gone')
    })
    await expect(database.attachments.stage(broken)).rejects.toThrow('gone')
    expect(storedBefore).toBeGreaterThan(0)
    await expect.poll(() => storedChunks(store)).toBe(0)
  })

  it('of an upload under way survive a compaction, and are there when its document is written', async () => {
    const { database, store } = await memoryDatabase()
    const gate = Promise.withResolvers<void>()
    const fed = Promise.withResolvers<void>()
    const end = () => {
      fed.resolve()
      return gate.promise
    }
    const staging = database.attachments.stage(content(MANY, end))
    await fed.promise
    await expect.poll(() => storedChunks(store)).toBeGreaterThan(0)
    database.compact()
    await database.compacted()
    expect(await storedChunks(store)).toBeGreaterThan(0)
    gate.resolve()
    const { content: stored, puts, release } = await staging
    const attachment = { ...stored, name: 'a', contentType: 'application/octet-stream', revpos: undefined, puts }
    await written(database.write([{ ...put('document', {}), attachments: [attachment] }]))
    release()
    database.compact()
    await database.compacted()
    let length = 0
    for await (const piece of database.attachments.read(stored)) length += piece.length
    expect(length).toBe(MANY * CHUNK_BYTES)
  })

  it('can be stored again after a failure to read the store', async () => {
    const { database, store } = await memoryDatabase()
    const failing = vi.spyOn(store, 'snapshot').mockImplementation(() => {
      throw new CommitFailedError('There is no disk space to open a store.')
    })
    const first = [database.attachments.stage(content(1)), database.attachments.stage(content(1))]
    for (const staging of first) await expect(staging).rejects.toThrow('no disk space')
    failing.mockRestore()
    const staged = await Promise.all([database.attachments.stage(content(1)), database.attachments.stage(content(1))])
    expect(staged.map(({ content: { number } }) => number)).toEqual([1, 2])
  })

  it('do not move the version that writers of documents count on', async () => {
    const { database, store } = await memoryDatabase()
    using before = store.snapshot()
    await database.attachments.stage(content(8))
    using after = store.snapshot()
    expect(await after.version()).toBe(await before.version())
  })

  it('are stored whole up to the last byte, whatever their size', async () => {
    const { database } = await memoryDatabase()
    for (const size of [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1]) {
      async function* bytes() {
        if (size > 0) yield Buffer.alloc(size, 'x')
      }
      const { content: stored, puts } = await database.attachments.stage(bytes())
      expect(stored).toMatchObject({ length: size, storedLength: size })
      expect(puts.reduce((sum, [, value]) => sum + value.length, 0)).toBe(size)
      expect(puts.length).toBe(Math.max(1, Math.ceil(size / CHUNK_BYTES)))
    }
  })
})
