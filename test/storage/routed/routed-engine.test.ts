import { describe, expect, it } from 'vitest'
import { MemoryEngine } from '../../../src/storage/memory/memory-engine.ts'
import type { EnginePart } from '../../../src/storage/routed/engine-part.ts'
import { LateEngine } from '../../../src/storage/routed/late-engine.ts'
import { NamePatterns } from '../../../src/storage/routed/name-patterns.ts'
import { RoutedEngine } from '../../../src/storage/routed/routed-engine.ts'
import { RoutedIndexes } from '../../../src/storage/routed/routed-indexes.ts'
import { EngineUnavailableError, StoreExistsError, StoreMissingError } from '../../../src/storage/storage-error.ts'
import type { StorageEngine } from '../../../src/storage/store.ts'
import { describeEngine } from '../conformance.ts'

const OTHER = 'other-*'

interface Routed {
  readonly engine: RoutedEngine
  readonly twice: string[]
}

/** Two engines: names that match the pattern are created in the second one. */
function routed(own: StorageEngine, other: StorageEngine & { isListed?: boolean }, pattern = OTHER): Routed {
  const twice: string[] = []
  const ownPart: EnginePart = { shown: 'own', engine: own, isListed: true }
  const otherPart: EnginePart = {
    shown: 'other',
    engine: other,
    get isListed() {
      return other.isListed ?? true
    },
  }
  const patterns = new NamePatterns([[pattern, otherPart]])
  const engine = new RoutedEngine({
    parts: [ownPart, otherPart],
    assigned: (name) => patterns.find(name) ?? ownPart,
    keyOf: (name) => name,
    onTwice: (name, used, hidden) => twice.push(`${name}: ${used.shown}, not ${hidden.shown}`),
  })
  return { engine, twice }
}

describeEngine('two engines as one', async () => routed(new MemoryEngine(), new MemoryEngine(), 's*').engine, {
  scanRows: 20_000,
  sequences: 10,
})

describe('several engines', () => {
  it('get the stores whose names they are for, and are listed together', async () => {
    const [own, other] = [new MemoryEngine(), new MemoryEngine()]
    const { engine } = routed(own, other)
    for (const name of ['b', 'other-1', 'a', '_users']) await engine.create(name)
    expect(await engine.list()).toEqual(['_users', 'a', 'b', 'other-1'])
    expect(await own.list()).toEqual(['_users', 'a', 'b'])
    expect(await other.list()).toEqual(['other-1'])
    await engine.drop('other-1')
    expect(await other.list()).toEqual([])
  })

  it('keep the stores that they have, whatever pattern their names match now', async () => {
    const [own, other] = [new MemoryEngine(), new MemoryEngine()]
    const before = routed(own, other)
    await before.engine.create('a', [[Buffer.from('k'), Buffer.from('of a')]])
    await before.engine.create('other-1')
    const { engine } = routed(own, other, 'a')
    expect(await engine.list()).toEqual(['a', 'other-1'])
    const store = await engine.open('a')
    using snapshot = store.snapshot()
    expect(String(await snapshot.get(Buffer.from('k')))).toBe('of a')
    await expect(engine.create('a')).rejects.toThrow(StoreExistsError)
    await expect(engine.create('other-1')).rejects.toThrow(StoreExistsError)
    expect(await own.list()).toEqual(['a'])
    // Dropped and created, it goes where its name says now.
    await engine.drop('a')
    await engine.create('a')
    expect([await own.list(), await other.list()]).toEqual([[], ['a', 'other-1']])
  })

  it('report a name that is in both, and use the one that the name is for', async () => {
    const [own, other] = [new MemoryEngine(), new MemoryEngine()]
    await own.create('other-1')
    await other.create('other-1')
    const { engine, twice } = routed(own, other)
    expect(await engine.list()).toEqual(['other-1'])
    await engine.list()
    expect(twice).toEqual(['other-1: other, not own'])
    await engine.drop('other-1')
    expect([await own.list(), await other.list()]).toEqual([['other-1'], []])
    expect(engine.has('other-1')).toBe(true)
  })

  it('say of no store that it is missing, and create none, until all of them have been asked', async () => {
    const [own, other] = [new MemoryEngine(), new MemoryEngine()]
    await own.create('a')
    await other.create('b')
    const late = new LateEngine()
    const { engine, twice } = routed(own, late)
    const seen: string[] = []
    engine.onChangedElsewhere((change, name) => seen.push(`${change} ${name}`))
    expect((await engine.open('a')).name).toBe('a')
    for (const refused of [
      () => engine.open('b'),
      () => engine.open('other-1'),
      () => engine.create('c'),
      () => engine.create('other-1'),
      () => engine.drop('c'),
      () => engine.list(),
    ]) {
      await expect(refused()).rejects.toThrow(EngineUnavailableError)
    }
    await expect(engine.create('a')).rejects.toThrow(StoreExistsError)
    await other.create('a')
    late.begin(Object.assign(other, { knownNames: ['a', 'b'] }))
    expect(seen).toEqual(['created b'])
    expect(twice).toEqual(['a: own, not other'])
    expect((await engine.open('b')).name).toBe('b')
    await expect(engine.open('c')).rejects.toThrow(StoreMissingError)
    await engine.create('c')
    expect(await engine.list()).toEqual(['a', 'b', 'c'])
  })

  it('show the names that they had while they cannot be reached', async () => {
    const [own, other] = [new MemoryEngine(), new MemoryEngine()]
    const { engine } = routed(own, other)
    await engine.create('a')
    await engine.create('other-1')
    const away = async () => {
      throw new EngineUnavailableError('It is away.')
    }
    Object.assign(other, { knownNames: ['other-1'], list: away, open: away, create: away })
    expect(await engine.list()).toEqual(['a', 'other-1'])
    await expect(engine.create('other-2')).rejects.toThrow('It is away.')
    await engine.create('b')
    expect(await engine.list()).toEqual(['a', 'b', 'other-1'])
  })

  it('have the indexes of their databases', async () => {
    const [own, other] = [new MemoryEngine(), new MemoryEngine()]
    const part = (shown: string, engine: StorageEngine) => ({ shown, engine, isListed: true })
    const indexes = new RoutedIndexes([part('own', own), part('other', other)], (store) =>
      store.startsWith('other-') ? other : own,
    )
    await indexes.create('a/1')
    await indexes.create('other-1/1')
    expect([await own.list(), await other.list()]).toEqual([['a/1'], ['other-1/1']])
    // What a crash left in another engine is not the index of this database, and goes with it.
    await other.create('a/2')
    expect(indexes.has('a/2')).toBe(false)
    expect(await indexes.list()).toEqual(['a/1', 'a/2', 'other-1/1'])
    await indexes.drop('a/2')
    await indexes.drop('a/1')
    expect(await indexes.list()).toEqual(['other-1/1'])
    await expect(indexes.drop('a/1')).rejects.toThrow(StoreMissingError)
  })
})
