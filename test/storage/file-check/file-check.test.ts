import { cpSync, existsSync, readdirSync, readFileSync, statSync, truncateSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { inspectFile, inspectPages } from '../../../src/storage/file-check/inspect-file.ts'
import { LmdbEngine } from '../../../src/storage/lmdb/lmdb-engine.ts'
import { FileDamagedError, StoreGoneError } from '../../../src/storage/storage-error.ts'
import type { Put, Store } from '../../../src/storage/store.ts'
import { damage, FATAL_DAMAGES, HARMLESS_DAMAGES, scrambleLeaves } from './damages.ts'

let folder: string
let template: string
let copies = 0

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'settle-damage-'))
  template = join(folder, 'template')
  const engine = await LmdbEngine.open({ folder: template })
  const store = await engine.create('victim')
  await engine.create('whole')
  for (let round = 0; round < 40; round++) await store.commit({ puts: rows(round, 100), deletes: keys(round - 2, 60) })
  await engine.close()
})

afterAll(async () => rm(folder, { recursive: true, force: true }))

function keys(round: number, count: number): Buffer[] {
  return Array.from({ length: round < 0 ? 0 : count }, (_, i) => Buffer.from(`key ${round} ${i}`))
}

/** Some have values that need pages of their own. */
function rows(round: number, count: number): Put[] {
  return keys(round, count).map((key, i) => [key, Buffer.alloc(i % 20 === 0 ? 30_000 : 200, i)])
}

/** A folder of its own, and the path of the store that is to be damaged. */
function copy(): { readonly copied: string; readonly path: string } {
  const copied = join(folder, `copy-${copies++}`)
  cpSync(template, copied, { recursive: true })
  return { copied, path: pathOf(copied, 'victim') }
}

/** Where the newest file of a store lies. */
function pathOf(inFolder: string, store: string): string {
  const names = readdirSync(inFolder).filter((each) => each.startsWith(`${store}.`) && each.endsWith('.mdb'))
  const generation = (name: string) => Number(name.split('.')[1])
  return join(inFolder, names.sort((a, b) => generation(b) - generation(a))[0]!)
}

function walk(path: string): void {
  for (const _ of inspectPages(path));
}

async function readAll(store: Store): Promise<number> {
  using snapshot = store.snapshot()
  let count = 0
  for (let page = await snapshot.page({}); ; page = await snapshot.page(page.next)) {
    count += page.length
    if (!page.next) return count
  }
}

describe('a file that is whole', () => {
  it('passes, and so do all of its pages', () => {
    const { path } = copy()
    expect(inspectFile(path)).toEqual({ repaired: undefined })
    walk(path)
  })

  it('passes after any commit', async () => {
    const commits = join(folder, 'commits')
    const engine = await LmdbEngine.open({ folder: commits })
    const store = await engine.create('a')
    for (let round = 0; round < 100; round++) {
      await store.commit({
        puts: rows(round, round % 7 === 0 ? 150 : 5),
        deletes: keys(round - 3, round % 5 === 0 ? 150 : 1),
      })
      inspectFile(pathOf(commits, 'a'))
      walk(pathOf(commits, 'a'))
    }
    await store.compact()
    walk(pathOf(commits, 'a'))
    await store.replace(portions())
    walk(pathOf(commits, 'a'))
    await engine.close()
  })

  it('passes where pages at its end are free and were never written', async () => {
    const { path } = copy()
    const bytes = readFileSync(path)
    const { size } = statSync(path)
    // As if the last transaction had taken ten more pages and given them back.
    for (const at of [144, 8192 + 144]) bytes.writeUInt32LE(size / 8192 + 9, at)
    damage(path, () => bytes)
    inspectFile(path)
  })
})

async function* portions(): AsyncGenerator<Put[]> {
  const all = Array.from(
    { length: 3000 },
    (_, i): Put => [Buffer.from(`k${10_000 + i}`), Buffer.alloc(i % 100 === 0 ? 20_000 : 90)],
  )
  yield all.slice(0, 1500)
  yield all.slice(1500)
}

describe('a file that is damaged', () => {
  for (const [how, make] of Object.entries(FATAL_DAMAGES)) {
    it(`is refused and named when it is ${how}; other stores continue`, async () => {
      const { copied, path } = copy()
      damage(path, make)
      const damaged: string[] = []
      const reports = { damaged: ({ path: of }: FileDamagedError) => damaged.push(of), repaired: () => {} }
      const engine = await LmdbEngine.open({ folder: copied, reports })
      await engine.inspect()
      expect(damaged).toEqual([path])
      const store = await engine.open('victim')
      for (let time = 0; time < 2; time++) expect(() => store.snapshot()).toThrow(FileDamagedError)
      await expect(store.commit({ puts: rows(1, 1) })).rejects.toThrow(FileDamagedError)
      await expect(store.sizes()).rejects.toThrow(/victim\.\d+\.mdb is damaged/)
      expect(damaged).toEqual([path])
      expect(await engine.list()).toEqual(['victim', 'whole'])
      await (await engine.open('whole')).commit({ puts: rows(1, 1) })
      await engine.drop('victim')
      expect(() => store.snapshot()).toThrow(StoreGoneError)
      await (await engine.create('victim')).commit({ puts: rows(1, 1) })
      await engine.close()
      expect(existsSync(path)).toBe(false)
    })
  }

  for (const [how, make] of Object.entries(HARMLESS_DAMAGES)) {
    it(`is repaired when it is ${how}`, async () => {
      const { copied, path } = copy()
      damage(path, make)
      const repaired: string[] = []
      const reports = { damaged: () => {}, repaired: (of: string) => repaired.push(of) }
      const engine = await LmdbEngine.open({ folder: copied, reports })
      const store = await engine.open('victim')
      const count = await readAll(store)
      expect(count).toBeGreaterThan(1000)
      expect(repaired).toEqual([path])
      for (let round = 100; round < 105; round++) await store.commit({ puts: rows(round, 100) })
      expect(await readAll(store)).toBe(count + 500)
      await engine.close()
      inspectFile(path)
      walk(path)
    })
  }

  it('is found by a walk where a look at its beginning is not enough', () => {
    const { path } = copy()
    damage(path, scrambleLeaves)
    inspectFile(path)
    expect(() => walk(path)).toThrow(FileDamagedError)
  })

  it('is reported when a page in its middle is zeroed, whenever that is read', async () => {
    const { copied, path } = copy()
    damage(path, (whole) => {
      const roots = new Set([88, 136, 8192 + 88, 8192 + 136].map((at) => whole.readUInt32LE(at)))
      for (let page = 2; page < whole.length / 8192; page++) {
        if (!roots.has(page)) whole.fill(0, page * 8192, (page + 1) * 8192)
      }
      return whole
    })
    const engine = await LmdbEngine.open({ folder: copied })
    const heard: string[] = []
    engine.onDamaged((name) => heard.push(name))
    const store = await engine.open('victim')
    await expect(readAll(store)).rejects.toThrow(FileDamagedError)
    await expect(readAll(store)).rejects.toThrow(FileDamagedError)
    expect(new Set(heard)).toEqual(new Set(['victim']))
    await engine.drop('victim')
    await engine.close()
  })

  it('leaves the file before it to the operator, which does not come back when the store is dropped', async () => {
    const { copied, path } = copy()
    const newer = path.replace(/\d+\.mdb$/, '99.mdb')
    cpSync(path, newer)
    truncateSync(newer, 0)
    const engine = await LmdbEngine.open({ folder: copied })
    const store = await engine.open('victim')
    expect(() => store.snapshot()).toThrow(basename(newer))
    expect(existsSync(`${path}.older`)).toBe(true)
    await engine.drop('victim')
    await engine.close()
    const again = await LmdbEngine.open({ folder: copied })
    expect(await again.list()).toEqual(['whole'])
    await again.close()
  })

  it('is one that is missing', async () => {
    const { copied, path } = copy()
    const engine = await LmdbEngine.open({ folder: copied })
    await rm(path)
    const store = await engine.open('victim')
    expect(() => store.snapshot()).toThrow(/It is missing/)
    expect(existsSync(path)).toBe(false)
    await engine.close()
  })
})
