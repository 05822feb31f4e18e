/** Stores of another process: every opening of a file is asked for. */
import { expect, it, onTestFinished } from 'vitest'
import { FollowedEngine } from '../../../src/storage/lmdb/followed-engine.ts'
import type { AskToOpen } from '../../../src/storage/lmdb/followed-store.ts'
import { LmdbEngine } from '../../../src/storage/lmdb/lmdb-engine.ts'
import { FileDamagedError, StoreGoneError } from '../../../src/storage/storage-error.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const KEY = Buffer.from('key')

/** The files of stores with one row, which nobody has open: its value is the name of the store. */
async function places(...names: string[]) {
  const engine = await LmdbEngine.open({ folder: await temporaryFolder() })
  for (const name of names) await (await engine.create(name)).commit({ puts: [[KEY, Buffer.from(name)]] })
  const all = engine.places()
  await engine.close()
  return all
}

function followed(askToOpen: AskToOpen, idleFiles = 10): FollowedEngine {
  const engine = new FollowedEngine({ idleFiles, idleStates: 10, askToOpen })
  onTestFinished(() => engine.close())
  return engine
}

async function read(engine: FollowedEngine, name: string): Promise<string | undefined> {
  using snapshot = (await engine.open(name)).snapshot()
  return (await snapshot.get(KEY))?.toString()
}

it('asks once for a file that several readers wait for, and again when it was closed', async () => {
  const asked: string[] = []
  const engine = followed(async ({ name }, open) => {
    asked.push(name)
    await new Promise((resolve) => setImmediate(resolve))
    open()
    return true
  }, 0)
  engine.placeAll(await places('a', 'b'))
  expect(await Promise.all(['a', 'a', 'b', 'a'].map((name) => read(engine, name)))).toEqual(['a', 'a', 'b', 'a'])
  expect(asked).toEqual(['a', 'b'])
  await new Promise((resolve) => setImmediate(resolve))
  const store = await engine.open('a')
  expect(await store.isEmpty()).toBe(false)
  expect(asked).toEqual(['a', 'b', 'a'])
})

it('does not open a file before it may, and shares and releases snapshots meanwhile', async () => {
  const { promise, resolve } = Promise.withResolvers<void>()
  const engine = followed(async (_, open) => {
    await promise
    open()
    return true
  })
  engine.placeAll(await places('a'))
  const first = (await engine.open('a')).snapshot()
  const second = first.share()
  const version = first.version()
  first.release()
  resolve()
  expect(await version).toBe(1)
  expect((await second.getMany([KEY]))[0]?.toString()).toBe('a')
  expect(await second.count({})).toBe(1)
  expect((await second.share().page({})).length).toBe(1)
  await expect(first.get(KEY)).rejects.toThrow('was released')
})

it('opens the new file of a store that got one while it was asked for', async () => {
  const [old, other] = await places('a', 'b')
  const asked: string[] = []
  const engine = followed(async ({ path }, open) => {
    asked.push(path)
    if (path === old!.path) setImmediate(() => engine.place({ name: 'a', path: other!.path }))
    else open()
    return path !== old!.path
  })
  engine.placeAll([old!])
  expect(await read(engine, 'a')).toBe('b')
  expect(asked).toEqual([old!.path, other!.path])
})

it('opens no file that was replaced before the answer came', async () => {
  const [old, other] = await places('a', 'b')
  const engine = followed(async ({ path }, open) => {
    if (path === old!.path) engine.place({ name: 'a', path: other!.path })
    open()
    return true
  })
  engine.placeAll([old!])
  expect(await read(engine, 'a')).toBe('b')
})

it('fails readers of a store that is dropped, or damaged, or that may not be opened', async () => {
  const [a, b, c] = await places('a', 'b', 'c')
  const engine = followed(async ({ name }, open) => {
    if (name === 'a') engine.forget('a')
    if (name === 'c') throw new Error('There is no server.')
    open()
    return true
  })
  engine.placeAll([a!, b!, c!])
  engine.refuse([{ path: b!.path, problem: 'It is damaged.' }])
  await expect(read(engine, 'a')).rejects.toThrow(StoreGoneError)
  await expect(read(engine, 'b')).rejects.toThrow(FileDamagedError)
  await expect(read(engine, 'c')).rejects.toThrow('There is no server.')
})
