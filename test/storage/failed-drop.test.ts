/** A store that is dropped where the folder is not as the engine left it. */
import { existsSync, readdirSync } from 'node:fs'
import { mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { LmdbEngine } from '../../src/storage/lmdb/lmdb-engine.ts'
import { CommitFailedError, StoreGoneError } from '../../src/storage/storage-error.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const KEY = Buffer.from('key')
const VALUE = Buffer.from('value')

async function open() {
  const folder = await temporaryFolder()
  const engine = await LmdbEngine.open({ folder })
  onTestFinished(() => engine.close())
  const store = await engine.create('store')
  await store.commit({ puts: [[KEY, VALUE]] })
  return { folder, engine, store, trash: join(folder, '.trash') }
}

function filesIn(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => name.includes('store.'))
}

describe('a store that is dropped', () => {
  it('goes with all that belongs to it when somebody has removed its file', async () => {
    const { folder, engine } = await open()
    await rm(join(folder, 'store.1.mdb'))
    await engine.drop('store')
    expect(engine.openFiles).toBe(0)
    await expect.poll(() => filesIn(folder)).toEqual([])
    await engine.create('store')
    expect(await engine.list()).toEqual(['store'])
  })

  it('goes when somebody has removed the folder that files go to', async () => {
    const { folder, engine, trash } = await open()
    await rm(trash, { recursive: true })
    await engine.drop('store')
    await expect.poll(() => filesIn(folder)).toEqual([])
  })

  it('exists until the disk releases it', async () => {
    const { folder, engine, store, trash } = await open()
    await rm(trash, { recursive: true })
    await writeFile(trash, '')
    await expect(engine.drop('store')).rejects.toThrow(CommitFailedError)
    expect(await engine.list()).toEqual(['store'])
    expect(() => store.snapshot()).toThrow(StoreGoneError)
    const again = await engine.open('store')
    {
      using snapshot = again.snapshot()
      expect(await snapshot.get(KEY)).toEqual(VALUE)
    }
    await rm(trash)
    await engine.drop('store')
    expect(await engine.list()).toEqual([])
    await expect.poll(() => filesIn(folder)).toEqual([])
  })
})

describe('a file from before a compaction that could not be removed', () => {
  it.each([
    { holder: 'nobody', isLent: false },
    { holder: 'another process', isLent: true },
  ])('does not come back when its store is dropped, used by $holder', async ({ isLent }) => {
    const { folder, engine, store, trash } = await open()
    const lease = isLent ? engine.lend('store') : undefined
    await rm(trash, { recursive: true })
    await writeFile(trash, '')
    await store.compact().catch(() => {})
    await lease?.release()
    await expect(engine.drop('store')).rejects.toThrow(CommitFailedError)
    await rm(trash)
    await engine.drop('store')
    await engine.close()
    const next = await LmdbEngine.open({ folder })
    onTestFinished(() => next.close())
    expect(await next.list()).toEqual([])
  })
})

describe('an engine', () => {
  it('closes though it cannot remove the list of its open files', async () => {
    const { folder, engine } = await open()
    const ledger = join(folder, '.open-files')
    await rm(ledger)
    await mkdir(ledger)
    await engine.close()
    expect(existsSync(ledger)).toBe(true)
  })
})
