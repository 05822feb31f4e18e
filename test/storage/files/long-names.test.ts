import { existsSync } from 'node:fs'
import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { stemOf } from '../../../src/storage/files/store-file.ts'
import { LmdbEngine, type LmdbEngineOptions } from '../../../src/storage/lmdb/lmdb-engine.ts'
import { FileDamagedError, StoreExistsError, StoreGoneError } from '../../../src/storage/storage-error.ts'
import type { Store } from '../../../src/storage/store.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

/** Alike in all that a cut name would hold of them. */
const NAMES = [`${'a/'.repeat(499)}aa`, `${'a/'.repeat(499)}ab`, 'a'.repeat(1000), 'a'.repeat(999), 'a'.repeat(221)]
const LONG = NAMES[0]!

const bytes = (text: string) => Buffer.from(text)

async function open(options: LmdbEngineOptions): Promise<LmdbEngine> {
  const engine = await LmdbEngine.open(options)
  onTestFinished(() => engine.close())
  return engine
}

async function put(store: Store, text: string): Promise<void> {
  await store.commit({ puts: [[bytes('key'), bytes(text)]] })
}

async function textOf(engine: LmdbEngine, name: string): Promise<string | undefined> {
  using snapshot = (await engine.open(name)).snapshot()
  return (await snapshot.get(bytes('key')))?.toString()
}

/** The files that belong to stores: without their locks and the notes of the engine. */
async function files(folder: string): Promise<string[]> {
  return (await readdir(folder)).filter((name) => !name.startsWith('.') && !name.endsWith('-lock')).sort()
}

async function mdbFile(folder: string): Promise<string> {
  const [file] = (await files(folder)).filter((name) => name.endsWith('.mdb'))
  return join(folder, file!)
}

const nameFile = (folder: string, name = LONG) => join(folder, `${stemOf(name)}.name`)

describe('a store whose name is too long for the name of a file', () => {
  it('is there again after a restart, beside others that begin like it', async () => {
    const folder = await temporaryFolder()
    const first = await LmdbEngine.open({ folder })
    for (const name of NAMES) await put(await first.create(name), name)
    await first.close()
    const second = await open({ folder })
    expect(await second.list()).toEqual([...NAMES].sort())
    expect(second.openFiles).toBe(0)
    for (const name of NAMES) expect(await textOf(second, name)).toBe(name)
    await expect(second.create(LONG)).rejects.toThrow(StoreExistsError)
    expect(new Set(second.openNames())).toEqual(new Set(NAMES))
  })

  it('goes with its name when it is dropped, and can be made again', async () => {
    const folder = await temporaryFolder()
    const engine = await LmdbEngine.open({ folder })
    for (const life of ['first', 'second']) {
      await put(await engine.create(LONG), life)
      expect(await files(folder)).toHaveLength(2)
      expect(await textOf(engine, LONG)).toBe(life)
      await engine.drop(LONG)
      expect(await files(folder)).toEqual([])
    }
    await put(await engine.create(LONG), 'third')
    await engine.close()
    const again = await open({ folder })
    expect(await again.list()).toEqual([LONG])
    expect(await textOf(again, LONG)).toBe('third')
  })

  it('keeps its name when it is made again before it is wholly dropped', async () => {
    const folder = await temporaryFolder()
    const engine = await LmdbEngine.open({ folder })
    await engine.create(LONG)
    for (let life = 0; life < 20; life++) {
      const [, store] = await Promise.all([engine.drop(LONG), engine.create(LONG)])
      await put(store, `life ${life}`)
      expect(existsSync(nameFile(folder))).toBe(true)
    }
    await engine.close()
    const again = await open({ folder })
    expect(await textOf(again, LONG)).toBe('life 19')
    expect(await files(folder)).toHaveLength(2)
  })

  it('keeps it through compaction', async () => {
    const folder = await temporaryFolder()
    const engine = await LmdbEngine.open({ folder })
    const store = await engine.create(LONG)
    await put(store, 'kept')
    const before = await mdbFile(folder)
    await store.compact()
    expect(await mdbFile(folder)).not.toBe(before)
    await expect.poll(() => readdir(join(folder, '.trash'))).toEqual([])
    await engine.close()
    const again = await open({ folder })
    expect(await textOf(again, LONG)).toBe('kept')
    expect(await files(folder)).toHaveLength(2)
  })

  it('is lent to other processes, moves to the file that one wrote, and takes the lease back when it is dropped', async () => {
    const folder = await temporaryFolder()
    const engine = await open({ folder })
    const store = await engine.create(LONG)
    await put(store, 'kept')
    const lease = engine.lend(LONG, store)
    const next = lease.nextPath()
    expect(next.startsWith(join(folder, `${stemOf(LONG)}.`))).toBe(true)
    await store.compact()
    // As a process leaves it that died on the way.
    await writeFile(`${next}.new`, 'half')
    const drop = engine.drop(LONG)
    expect(lease.revoked.aborted && lease.revoked.reason).toBeInstanceOf(StoreGoneError)
    expect(existsSync(nameFile(folder))).toBe(true)
    await lease.release()
    await drop
    expect(await files(folder)).toEqual([])
  })

  it('has a scratch folder that goes with it, or at the start when it is gone', async () => {
    const folder = await temporaryFolder()
    const engine = await LmdbEngine.open({ folder })
    await engine.create(LONG)
    const scratch = engine.scratchFolder(LONG)
    await engine.create(NAMES[1]!)
    const other = engine.scratchFolder(NAMES[1]!)
    expect(scratch).not.toBe(other)
    await mkdir(scratch, { recursive: true })
    await engine.drop(NAMES[1]!)
    await mkdir(other)
    await engine.close()
    const again = await open({ folder })
    expect(await readdir(join(folder, '.scratch'))).toEqual([basename(scratch)])
    await again.drop(LONG)
    expect(await readdir(join(folder, '.scratch'))).toEqual([])
  })

  it('is set aside when the process fell twice over it, under its whole name', async () => {
    const folder = await temporaryFolder()
    const first = await LmdbEngine.open({ folder })
    await put(await first.create(LONG), 'kept')
    await first.close()
    const file = (await mdbFile(folder)).slice(folder.length + 1)
    await writeFile(join(folder, '.open-files'), `!${file}\n+${file}\n`)
    for (let start = 0; start < 2; start++) {
      const engine = await LmdbEngine.open({ folder })
      expect(await engine.list()).toEqual([LONG])
      await expect(textOf(engine, LONG)).rejects.toThrow(FileDamagedError)
      await engine.close()
    }
    const engine = await open({ folder })
    await engine.drop(LONG)
    expect(await files(folder)).toEqual([])
  })
})

describe('a crash', () => {
  it('between name and file leaves nothing, and the name is free', async () => {
    const folder = await temporaryFolder()
    const first = await LmdbEngine.open({ folder })
    await first.create(LONG)
    await first.close()
    const file = await mdbFile(folder)
    await rename(file, `${file}.new`)
    await writeFile(`${nameFile(folder, NAMES[1])}.new`, NAMES[1]!.slice(0, 100))
    const second = await open({ folder })
    expect(await second.list()).toEqual([])
    expect(await files(folder)).toEqual([])
    await put(await second.create(LONG), 'anew')
    expect(await textOf(second, LONG)).toBe('anew')
  })

  it('during a compaction leaves one of both generations, with its name', async () => {
    const folder = await temporaryFolder()
    const first = await LmdbEngine.open({ folder })
    const store = await first.create(LONG)
    await put(store, 'old')
    const old = await mdbFile(folder)
    const content = await readFile(old)
    await put(store, 'new')
    await store.compact()
    await first.close()
    await writeFile(old, content)
    const second = await open({ folder })
    expect(await textOf(second, LONG)).toBe('new')
    expect(await files(folder)).toHaveLength(2)
  })
})

describe('a file whose long name is lost', () => {
  it.each([
    ['missing', (path: string) => rm(path)],
    ['damaged', (path: string) => writeFile(path, LONG.slice(1))],
  ])('(%s) is reported, kept, and back with the name', async (_, spoil) => {
    const folder = await temporaryFolder()
    const first = await LmdbEngine.open({ folder })
    await put(await first.create(LONG), 'kept')
    await first.close()
    const file = await mdbFile(folder)
    await spoil(nameFile(folder))
    const damaged: FileDamagedError[] = []
    const reports = { damaged: (error: FileDamagedError) => damaged.push(error), repaired: () => {} }
    const second = await LmdbEngine.open({ folder, reports })
    expect(damaged.map(({ path }) => path)).toEqual([file])
    expect(damaged[0]?.problem).toContain(`${stemOf(LONG)}.name`)
    expect(await second.list()).toEqual([])
    // A second store of that name would make the file an older generation, which the next start removes.
    await expect(second.create(LONG)).rejects.toThrow(StoreExistsError)
    await second.close()
    await writeFile(nameFile(folder), LONG)
    const third = await open({ folder })
    expect(await textOf(third, LONG)).toBe('kept')
  })
})
