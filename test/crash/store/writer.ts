/**
 * A process that writes until it is killed, or until it has written enough, and says on its standard output what it
 * was promised. Run: node writer.ts '<options as JSON>'
 */
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { DataFolder } from '../../../src/storage/files/data-folder.ts'
import { stemOf } from '../../../src/storage/files/store-file.ts'
import { LmdbEngine } from '../../../src/storage/lmdb/lmdb-engine.ts'
import type { Changes, CommitOutcome, Put, StorageEngine, Store } from '../../../src/storage/store.ts'
import { storesFolder } from '../check-folder.ts'
import { unflushedStore } from '../power-cuts/unflushed-store.ts'
import { acknowledge } from './acknowledgements.ts'
import { commitsOfLife, writerOfLife } from './expectations.ts'
import { commitOf, headKey, stateAfter } from './workload.ts'

export interface WriterOptions {
  readonly folder: string
  readonly stores: readonly string[]
  readonly writersPerStore: number
  /** Stores that are created, written to and dropped over and over, from this life on. */
  readonly shortLived: readonly string[]
  readonly firstLife: number
  readonly compacts: boolean
  /** How the promise is broken, for tests of the tests: told too early, each commit written as two, or not flushed. */
  readonly broken?: 'early' | 'torn' | 'unflushed'
  /** How many commits each writer makes before all stop; without it they never do. */
  readonly commits?: number
}

if (import.meta.main) await write(JSON.parse(process.argv[2]!))

export async function write(options: WriterOptions): Promise<void> {
  const dataFolder = await DataFolder.open(options.folder)
  const engine = await LmdbEngine.open({ folder: storesFolder(options.folder) })
  const made = await Promise.all(options.stores.map((name) => present(engine, name)))
  const stores = options.broken === 'unflushed' ? await withoutFlush(made, options.folder) : made
  acknowledge({ kind: 'ready' })
  let writing = true
  const beside = [
    ...options.shortLived.map((name) => liveAndDie(engine, name, options, () => writing)),
    ...(options.compacts ? stores.map((store) => compactAgain(store, () => writing)) : []),
  ]
  const writers = stores.flatMap((store) =>
    Array.from({ length: options.writersPerStore }, (_, i) => writeOn(store, `${store.name}-writer-${i}`, options)),
  )
  await Promise.all(writers)
  writing = false
  await Promise.all(beside)
  await engine.close()
  dataFolder.close()
}

async function present(engine: StorageEngine, name: string): Promise<Store> {
  if (engine.has(name)) return engine.open(name)
  const store = await engine.create(name)
  acknowledge({ kind: 'created', name })
  return store
}

async function withoutFlush(stores: readonly Store[], folder: string): Promise<Store[]> {
  const files = await readdir(storesFolder(folder))
  return stores.map(({ name }) => {
    const file = files.find((each) => each.startsWith(`${stemOf(name)}.`) && each.endsWith('.mdb'))
    return unflushedStore(name, join(storesFolder(folder), file!))
  })
}

/** Goes on where the writer of this name stopped, in whichever process that was. */
async function writeOn(store: Store, writer: string, { broken, commits = Infinity }: WriterOptions): Promise<void> {
  const found = await commitsSoFar(store, writer)
  // What could be read is on disk, whether or not the process that wrote it lived to say so.
  if (found > 0) acknowledge({ kind: 'committed', name: store.name, writer, n: found, version: 0 })
  const first = found + 1
  for (let n = first; n < first + commits; n++) {
    if (n % 16 === 0) await refusedCommit(store, writer)
    await commitAndTell(store, writer, n, broken)
  }
}

async function commitsSoFar(store: Store, writer: string): Promise<number> {
  using snapshot = store.snapshot()
  return Number((await snapshot.get(headKey(writer))) ?? 0)
}

/** Expects a state long past: of such a commit nothing may ever be found. */
async function refusedCommit(store: Store, writer: string): Promise<void> {
  const stale = Buffer.from(`${writer}/stale`)
  const { outcome } = await store.commit({ puts: [[stale, stale]], expected: 0 })
  if (outcome !== 'stale') throw new Error('A commit on an old state was taken.')
}

async function commitAndTell(store: Store, writer: string, n: number, broken: WriterOptions['broken']): Promise<void> {
  const { name } = store
  const changes = commitOf(writer, n)
  if (broken === 'early') acknowledge({ kind: 'committed', name, writer, n, version: 0 })
  const { version } = broken === 'torn' ? await commitInHalves(store, changes) : await store.commit(changes)
  if (broken !== 'early') acknowledge({ kind: 'committed', name, writer, n, version })
}

/** The same as the nth commit, but that the store is rewritten. Rows out of order are written in another way. */
async function replaceAndTell(store: Store, writer: string, n: number, order: 'sorted' | 'unsorted'): Promise<void> {
  const rows = [...stateAfter(writer, n)].map(([key, value]) => [Buffer.from(key), value] as const)
  rows.sort(([a], [b]) => Buffer.compare(a, b))
  if (order === 'unsorted') rows.reverse()
  await store.replace(inTwoPortions(rows))
  acknowledge({ kind: 'committed', name: store.name, writer, n, version: n })
}

async function* inTwoPortions(rows: readonly Put[]): AsyncGenerator<readonly Put[]> {
  const half = rows.length >> 1
  yield rows.slice(0, half)
  yield rows.slice(half)
}

async function commitInHalves(store: Store, { puts = [], ...rest }: Changes): Promise<CommitOutcome> {
  const half = puts.length >> 1
  await store.commit({ ...rest, puts: puts.slice(0, half) })
  return store.commit({ puts: puts.slice(half) })
}

async function liveAndDie(
  engine: StorageEngine,
  name: string,
  { firstLife, broken }: WriterOptions,
  writing: () => boolean,
): Promise<void> {
  if (engine.has(name)) await engine.drop(name)
  acknowledge({ kind: 'dropped', name, life: firstLife - 1 })
  for (let life = firstLife; writing(); life++) {
    const store = await engine.create(name)
    acknowledge({ kind: 'created', name, life })
    const last = commitsOfLife(life)
    const writer = writerOfLife(name, life)
    for (let n = 1; n < last; n++) await commitAndTell(store, writer, n, broken)
    if (life % 2 === 0 && !broken) await replaceAndTell(store, writer, last, life % 4 === 0 ? 'sorted' : 'unsorted')
    else await commitAndTell(store, writer, last, broken)
    await engine.drop(name)
    acknowledge({ kind: 'dropped', name, life })
  }
}

async function compactAgain(store: Store, writing: () => boolean): Promise<void> {
  while (writing()) {
    await store.compact()
    acknowledge({ kind: 'compacted', name: store.name })
  }
}
