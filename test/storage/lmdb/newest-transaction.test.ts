/** Processes that open a file while another one commits to it: LMDB itself forgets commits then. */
import assert from 'node:assert/strict'
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync, readSync, writeSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { libraryUse } from '../../../src/storage/lmdb/library/library-use.ts'
import { LmdbEngine } from '../../../src/storage/lmdb/lmdb-engine.ts'
import { LmdbEnvironment } from '../../../src/storage/lmdb/lmdb-environment.ts'
import { LmdbStore } from '../../../src/storage/lmdb/lmdb-store.ts'
import { versionBytes } from '../../../src/storage/rows/stored-key.ts'
import type { Store } from '../../../src/storage/store.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const TRANSACTION_AT = 8

async function storeIn(folder: string): Promise<{ store: LmdbStore; path: string }> {
  const engine = await LmdbEngine.open({ folder })
  onTestFinished(() => engine.close())
  const store = await engine.create('store')
  assert(store instanceof LmdbStore)
  const file = (await readdir(folder)).find((name) => name.endsWith('.mdb'))
  return { store, path: join(folder, file ?? '') }
}

async function put(store: Store, key: string): Promise<number> {
  const { outcome, version } = await store.commit({ puts: [[Buffer.from(key), Buffer.from(key)]] })
  expect(outcome).toBe('committed')
  return version
}

async function stored(store: Store, key: string): Promise<string | undefined> {
  using snapshot = store.snapshot()
  return (await snapshot.get(Buffer.from(key)))?.toString()
}

/** As a process does that opened the file while the last commit was written. */
function forgetLastCommit(path: string): void {
  const file = openSync(`${path}-lock`, 'r+')
  // Closed at the end: closing it takes the locks of the library in this process.
  onTestFinished(() => closeSync(file))
  const bytes = Buffer.alloc(8)
  readSync(file, bytes, 0, 8, TRANSACTION_AT)
  bytes.writeBigUInt64LE(bytes.readBigUInt64LE() - 1n)
  writeSync(file, bytes, 0, 8, TRANSACTION_AT)
}

describe('a commit that another process made LMDB forget', () => {
  it('is there again before the next commit, which is written upon it', async () => {
    const { store, path } = await storeIn(await temporaryFolder())
    await put(store, 'first')
    await put(store, 'second')
    forgetLastCommit(path)
    expect(await put(store, 'third')).toBe(3)
    expect(await stored(store, 'second')).toBe('second')
    expect(await stored(store, 'third')).toBe('third')
  })

  it('makes the next one stale that was planned without it', async () => {
    const { store, path } = await storeIn(await temporaryFolder())
    await put(store, 'first')
    await put(store, 'second')
    forgetLastCommit(path)
    const outcome = await store.commit({ puts: [[Buffer.from('second'), Buffer.from('lost')]], expected: 1 })
    expect(outcome).toEqual({ outcome: 'stale', version: 2 })
    expect(await stored(store, 'second')).toBe('second')
  })

  it('is not overwritten where it is forgotten while the next one begins', async () => {
    const { store, path } = await storeIn(await temporaryFolder())
    await put(store, 'first')
    await put(store, 'second')
    const third = store.commit({ expected: 2, puts: [[Buffer.from('third'), Buffer.from('third')]] })
    // The version was read in the same turn; the writing thread begins later, and is likely to see this.
    forgetLastCommit(path)
    expect(await third).toEqual({ outcome: 'committed', version: 3 })
    expect(await stored(store, 'second')).toBe('second')
  })
})

describe('a conditional write', () => {
  it.each([
    ['native', {}],
    ['as promised', { native_writes: false }],
  ])('is carried out only upon the state that it names: %s', async (_, off) => {
    const path = join(await temporaryFolder(), 'file.mdb')
    const use = { ...libraryUse(), ...off }
    const environment = new LmdbEnvironment(path, { create: true, use })
    onTestFinished(() => environment.close())
    const key = Buffer.from('condition')
    const value = (number: number) => versionBytes(number)
    const write = (number: number, before: number | undefined) =>
      environment.write(
        (target) => {
          target.put(key, value(number))
          // More than one block of instructions.
          for (let i = 0; i < 3000; i++) target.put(Buffer.from(`row-${i}`), Buffer.from(`${number}`))
          target.remove(Buffer.from(`removed-${number}`))
        },
        { key, value: before === undefined ? undefined : value(before) },
      )
    const read = () =>
      environment.reader.read((transaction) =>
        [key, Buffer.from('row-2999')].map((each) => environment.reader.get(transaction, each)?.toString('hex')),
      )
    const rows = (number: number) => [value(number).toString('hex'), Buffer.from(`${number}`).toString('hex')]
    expect(await write(1, 5)).toBe(false)
    expect(read()).toEqual([undefined, undefined])
    expect(await write(0, undefined)).toBe(true)
    // A store that has only commits of version 0 is as one that has none.
    expect(await write(1, undefined)).toBe(true)
    expect(await write(2, undefined)).toBe(false)
    expect(await write(2, 3)).toBe(false)
    expect(read()).toEqual(rows(1))
    expect(await write(2, 1)).toBe(true)
    expect(read()).toEqual(rows(2))
  })
})

describe('a store whose file other processes open all the time', () => {
  it('loses no commit, since none is written while they open it', { timeout: 120_000 }, async () => {
    const { store, path } = await storeIn(await temporaryFolder())
    await put(store, 'first')
    const opener = fork(join(import.meta.dirname, 'opener.ts'), [path], { execArgv: ['--no-warnings'] })
    onTestFinished(() => {
      opener.kill('SIGKILL')
    })
    let isDone = false
    let opened = 0
    const opening = (async () => {
      while (!isDone) {
        const resume = await store.pauseCommits()
        const done = once(opener, 'message')
        opener.send('open')
        await done
        resume()
        opened++
        await once(opener, 'message')
      }
    })()
    let version = 1
    while (opened < 300) expect(await put(store, `key-${version}`)).toBe(++version)
    isDone = true
    await opening
    for (let i = 1; i < version; i++) expect(await stored(store, `key-${i}`)).toBe(`key-${i}`)
  })
})
