import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { afterAll, describe, expect, it, onTestFinished } from 'vitest'
import { LmdbEngine, type LmdbEngineOptions } from '../../../src/storage/lmdb/lmdb-engine.ts'
import { StoreNameError } from '../../../src/storage/storage-error.ts'
import type { Put, Store } from '../../../src/storage/store.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { describeEngine } from '../conformance.ts'
import { readAll } from '../model.ts'

const folders: string[] = []
afterAll(() => Promise.all(folders.map((folder) => rm(folder, { recursive: true }))))

describeEngine('the LMDB engine', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'settle-test-'))
  folders.push(folder)
  return LmdbEngine.open({ folder })
})

async function open(options: LmdbEngineOptions): Promise<LmdbEngine> {
  const engine = await LmdbEngine.open(options)
  onTestFinished(() => engine.close())
  return engine
}

async function* rowsOf(puts: readonly Put[]): AsyncGenerator<readonly Put[]> {
  yield puts
}

const bytes = (text: string) => Buffer.from(text)

async function fill(store: Store, rows: number, size = 100): Promise<void> {
  for (let first = 0; first < rows; first += 1000) {
    const puts = Array.from({ length: 1000 }, (_, i) => {
      const key = bytes(`k${String(first + i).padStart(8, '0')}`)
      return [key, Buffer.alloc(size, key)] as const
    })
    await store.commit({ puts })
  }
}

describe('the folder of the LMDB engine', () => {
  it('holds one file a store, which is there again after a restart', async () => {
    const folder = await temporaryFolder()
    const first = await LmdbEngine.open({ folder })
    const names = ['a', 'a/b', '_users', 'größe', 'UPPER', 'dots.1.mdb']
    for (const name of names) await (await first.create(name)).commit({ puts: [[bytes('name'), bytes(name)]] })
    await first.close()
    const second = await open({ folder })
    expect(await second.list()).toEqual([...names].sort((a, b) => Buffer.compare(bytes(a), bytes(b))))
    for (const name of names) {
      using snapshot = (await second.open(name)).snapshot()
      expect((await snapshot.get(bytes('name')))?.toString()).toBe(name)
      expect(await snapshot.version()).toBe(1)
    }
  })

  it('refuses a name that no store can have', async () => {
    const engine = await open({ folder: await temporaryFolder() })
    await expect(engine.create('x'.repeat(2001))).rejects.toThrow(StoreNameError)
    await expect(engine.create('')).rejects.toThrow(StoreNameError)
    await engine.create('x'.repeat(2000))
  })

  it('ignores files whose names are not those of a store', async () => {
    const folder = await temporaryFolder()
    const strangers = ['100%.1.mdb', 'Capital.1.mdb', 'a%2f.2.mdb', '~0123.1.mdb', `${'x'.repeat(221)}.1.mdb`, '~.name']
    for (const stranger of strangers) await writeFile(join(folder, stranger), 'not ours')
    const engine = await open({ folder })
    expect(await engine.list()).toEqual([])
    expect(await readdir(folder)).toEqual(expect.arrayContaining(strangers))
  })

  it('is cleared of what a crash left: half-made files, older generations, trash, locks of nothing', async () => {
    const folder = await temporaryFolder()
    const first = await LmdbEngine.open({ folder })
    const store = await first.create('a')
    await store.commit({ puts: [[bytes('k'), bytes('old')]] })
    await first.close()
    const [oldName] = (await readdir(folder)).filter((name) => name.endsWith('.mdb'))
    const old = await readFile(join(folder, oldName!))
    const second = await LmdbEngine.open({ folder })
    const again = await second.open('a')
    await again.commit({ puts: [[bytes('k'), bytes('new')]] })
    await again.compact()
    await second.close()
    await writeFile(join(folder, oldName!), old)
    await writeFile(join(folder, 'b.7.mdb.new'), 'half')
    await writeFile(join(folder, 'b.7.mdb.new-lock'), '')
    await writeFile(join(folder, 'c.3.mdb-lock'), '')
    await writeFile(join(folder, '.trash', 'd.1.mdb'), '')
    const third = await open({ folder })
    expect(await third.list()).toEqual(['a'])
    using snapshot = (await third.open('a')).snapshot()
    expect((await snapshot.get(bytes('k')))?.toString()).toBe('new')
    const files = (await readdir(folder)).filter((name) => !name.endsWith('-lock') && name !== '.open-files')
    expect(files.filter((name) => name !== '.trash')).toHaveLength(1)
    expect(await readdir(join(folder, '.trash'))).toEqual([])
  })

  it('keeps the source of a rewritten store until it is written, and no longer', async () => {
    const folder = await temporaryFolder()
    const begin = async (engine: LmdbEngine, name: string) => {
      const scratch = engine.scratchFolder(name)
      await mkdir(scratch, { recursive: true })
      await writeFile(join(scratch, '0-9.run'), '')
      return basename(scratch)
    }
    const engine = await LmdbEngine.open({ folder })
    for (const name of ['unfinished', 'written', 'compacted', 'dropped']) await engine.create(name)
    const unfinished = await begin(engine, 'unfinished')
    for (const name of ['written', 'compacted', 'dropped']) await begin(engine, name)
    // As a process that dies right after it: nobody removes the scratch files.
    await (await engine.open('written')).replace(rowsOf([]))
    await (await engine.open('compacted')).compact()
    const again = await begin(engine, 'compacted')
    await (await engine.open('dropped')).compact()
    await begin(engine, 'dropped')
    await engine.drop('dropped')
    const scratchOfDropped = (await readdir(join(folder, '.scratch'))).filter((name) => name.startsWith('dropped'))
    expect(scratchOfDropped).toEqual([])
    await engine.close()
    await open({ folder })
    expect((await readdir(join(folder, '.scratch'))).sort()).toEqual([again, unfinished].sort())
  })

  it('gives the bytes of a dropped store back when its last reader is gone', async () => {
    const folder = await temporaryFolder()
    const engine = await open({ folder })
    const store = await engine.create('a')
    await fill(store, 1000)
    const snapshot = store.snapshot()
    await engine.drop('a')
    expect(await readdir(join(folder, '.trash'))).toHaveLength(1)
    expect(await readAll(snapshot, {}, 100)).toHaveLength(1000)
    snapshot.release()
    await expect.poll(() => readdir(join(folder, '.trash'))).toEqual([])
    await expect.poll(() => readdir(folder)).toEqual(['.open-files', '.trash'])
  })

  it('keeps open what is in use and a bounded number of idle files', async () => {
    const engine = await open({ folder: await temporaryFolder(), idleFiles: 5 })
    const stores = await Promise.all(Array.from({ length: 30 }, (_, i) => engine.create(`s${i}`)))
    await Promise.all(stores.map((store) => store.commit({ puts: [[bytes('k'), bytes(store.name)]] })))
    expect(engine.openFiles).toBeLessThanOrEqual(5)
    const held = stores.map((store) => store.snapshot())
    expect(engine.openFiles).toBe(30)
    for (const [i, snapshot] of held.entries()) expect((await snapshot.get(bytes('k')))?.toString()).toBe(`s${i}`)
    for (const snapshot of held) snapshot.release()
    expect(engine.openFiles).toBe(5)
  })
})

describe('compaction of an LMDB store', () => {
  it('makes the file smaller and keeps the rows', async () => {
    const engine = await open({ folder: await temporaryFolder() })
    const store = await engine.create('a')
    await fill(store, 20_000)
    await store.commit({ clears: [{ from: bytes('k00001000'), to: bytes('k00019000') }] })
    const before = await store.sizes()
    const progress: number[] = []
    await store.compact({ onProgress: (done) => progress.push(done) })
    const after = await store.sizes()
    expect(after.fileBytes).toBeLessThan(before.fileBytes / 5)
    expect(after.usedBytes).toBeLessThanOrEqual(after.fileBytes)
    expect(progress.at(-1)).toBe(1)
    using snapshot = store.snapshot()
    expect(await readAll(snapshot, {}, 256)).toHaveLength(2000)
    expect(await snapshot.version()).toBe(21)
  })

  it('runs beside readers and writers and loses nothing of theirs', async () => {
    const folder = await temporaryFolder()
    const engine = await open({ folder })
    const store = await engine.create('a')
    await fill(store, 20_000)
    const expected = new Map<string, string>()
    using old = store.snapshot()
    let running = true
    const writers = Array.from({ length: 8 }, async (_, writer) => {
      let written = 0
      while (running) {
        const key = `k${String((written * 7919 + writer * 31) % 20_000).padStart(8, '0')}`
        const mine = `${key}/${writer}`
        const value = `${writer}:${written++}`
        const commit = written % 5 === 0 ? { deletes: [bytes(mine)] } : { puts: [[bytes(mine), bytes(value)] as const] }
        await store.commit(commit)
        if (written % 5 === 0) expected.delete(mine)
        else expected.set(mine, value)
      }
    })
    await store.compact()
    await store.compact()
    running = false
    await Promise.all(writers)
    using snapshot = store.snapshot()
    const rows = await readAll(snapshot, {}, 256)
    const written = new Map(
      rows.filter(({ key }) => key.includes('/')).map(({ key, value }) => [String(key), String(value)]),
    )
    expect(written).toEqual(expected)
    expect(rows.length - written.size).toBe(20_000)
    expect(await readAll(old, {}, 256)).toHaveLength(20_000)
  })

  it('can be called off, and leaves the store as it was', async () => {
    const folder = await temporaryFolder()
    const engine = await open({ folder })
    const store = await engine.create('a')
    await fill(store, 5000)
    const files = (await readdir(folder)).sort()
    const controller = new AbortController()
    await expect(
      store.compact({ signal: controller.signal, onProgress: () => controller.abort(new Error('enough')) }),
    ).rejects.toThrow('enough')
    expect((await readdir(folder)).sort()).toEqual(files)
    await store.commit({ puts: [[bytes('k'), bytes('v')]] })
    await store.compact()
    using snapshot = store.snapshot()
    expect(await readAll(snapshot, {}, 256)).toHaveLength(5001)
  })

  it('ends when the store is dropped', async () => {
    const folder = await temporaryFolder()
    const engine = await open({ folder })
    const store = await engine.create('a')
    await fill(store, 20_000)
    const compaction = store.compact()
    const outcome = expect(compaction).rejects.toThrow('gone')
    await engine.drop('a')
    await outcome
    await expect.poll(() => readdir(folder)).toEqual(['.open-files', '.trash'])
  })

  it('frees the space of the old file though a reader held it', async () => {
    const folder = await temporaryFolder()
    const engine = await open({ folder })
    const store = await engine.create('a')
    await fill(store, 5000)
    const snapshot = store.snapshot()
    await store.compact()
    expect(await readAll(snapshot, {}, 256)).toHaveLength(5000)
    snapshot.release()
    await expect.poll(() => readdir(join(folder, '.trash'))).toEqual([])
    const [file] = (await readdir(folder)).filter((name) => name.endsWith('.mdb'))
    expect((await stat(join(folder, file!))).size).toBe((await store.sizes()).fileBytes)
  })
})
