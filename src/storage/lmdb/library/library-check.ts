/**
 * Tries out what is used of the LMDB library beyond what it promises, before any database is opened: what is written in
 * one way must be what is read in the other. What fails is switched off and reported. It is done once for each version
 * of the library and of Node, and noted in the data folder. A process that does not survive it leaves a note, too:
 * after three of them the next one uses nothing of it.
 */
import { existsSync, readFileSync } from 'node:fs'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { findPackageJSON } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { inspectFile, inspectPages } from '../../file-check/inspect-file.ts'
import { packedRows } from '../../rows/packed-rows.ts'
import { CUT_KEY_BYTES, storedRange, versionBytes } from '../../rows/stored-key.ts'
import { SortedFile } from '../../sorted-file/sorted-file.ts'
import type { Put } from '../../store.ts'
import { LmdbEnvironment } from '../lmdb-environment.ts'
import { FEATURES, type LibraryFeature, type LibraryUse, useWithout } from './library-use.ts'

const NOTE = '.library'

/** Throws where the feature does not do what is expected of it. The folder is for trials alone. */
export type Trial = (folder: string) => Promise<void>

export interface LibraryCheckOptions {
  readonly trials?: Readonly<Record<LibraryFeature, Trial>>
  /** Of all that the trials depend on. */
  readonly version?: string
}

/** What of the library may be used, and what is wrong with the rest, in sentences. */
export interface CheckedLibrary {
  readonly use: LibraryUse
  readonly problems: readonly string[]
}

/** `wanted` is what the settings allow. Notes are in the home folder; without them it is tried out each time. */
export async function checkLibrary(
  home: string,
  wanted: LibraryUse,
  { trials = TRIALS, version = installedVersion() }: LibraryCheckOptions = {},
): Promise<CheckedLibrary> {
  const features = FEATURES.filter((feature) => wanted[feature])
  const unwanted = FEATURES.filter((feature) => !wanted[feature])
  const note = await readNote(home)
  const attempts = note?.version === version ? note.attempts : 0
  let failed: Failures
  if (note?.version === version && note.failed) failed = note.failed
  else if (attempts >= MOST_ATTEMPTS) failed = Object.fromEntries(features.map((feature) => [feature, FELL]))
  else {
    await writeNote(home, { version, attempts: attempts + 1 })
    failed = await (trials === TRIALS ? ofThisProcess() : tried(trials))
    await writeNote(home, { version, attempts, failed })
  }
  const bad = features.filter((feature) => failed[feature] !== undefined)
  return {
    use: useWithout([...unwanted, ...bad]),
    problems: bad.map((feature) => `lmdb/${feature} is switched off. ${failed[feature]}`),
  }
}

const FELL = 'Processes ended while it was tried out.'

/** A process may end for another reason meanwhile; so often is no coincidence. */
const MOST_ATTEMPTS = 3

type Failures = Partial<Record<LibraryFeature, string>>

interface Note {
  readonly version: string
  /** How often trials were begun that did not end. */
  readonly attempts: number
  /** Undefined as long as the trials are not over. */
  readonly failed?: Failures
}

async function readNote(home: string): Promise<Note | undefined> {
  try {
    return JSON.parse(await readFile(join(home, NOTE), 'utf8'))
  } catch {
    return undefined
  }
}

/** A folder that cannot be written does not keep the server from starting: it is tried out again the next time. */
async function writeNote(home: string, note: Note): Promise<void> {
  await writeFile(join(home, NOTE), `${JSON.stringify(note)}\n`).catch(() => {})
}

/** Several services of one process use the same library. */
function ofThisProcess(): Promise<Failures> {
  triedHere ??= tried(TRIALS)
  return triedHere
}

let triedHere: Promise<Failures> | undefined

async function tried(trials: Readonly<Record<LibraryFeature, Trial>>): Promise<Failures> {
  const folder = await mkdtemp(join(tmpdir(), 'settle-library-')).catch(() => undefined)
  // Without room for a trial nothing can be said against it.
  if (folder === undefined) return {}
  const failed: Failures = {}
  try {
    for (const feature of FEATURES) {
      await trials[feature](folder).catch((error: unknown) => {
        failed[feature] = error instanceof Error ? error.message : String(error)
      })
    }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
  return failed
}

function installedVersion(): string {
  const file = findPackageJSON('lmdb', import.meta.url)
  const { version } = file === undefined ? { version: '?' } : JSON.parse(readFileSync(file, 'utf8'))
  return `lmdb ${version}, node ${process.version}, ${process.platform} ${process.arch}`
}

const PROMISED = useWithout(FEATURES)

function useOnly(feature: LibraryFeature): LibraryUse {
  return useWithout(FEATURES.filter((each) => each !== feature))
}

/** Short and long keys, empty, small and large values, in key order. */
function sampleRows(): Put[] {
  return Array.from({ length: 120 }, (_, i) => {
    const key = Buffer.from(`${String(i).padStart(5, '0')}${'k'.repeat((i * 7) % 90)}`)
    const bytes = i === 50 ? 40_000 : (i * 37) % 3000
    return [key, Buffer.alloc(bytes, i)]
  })
}

async function write(path: string, use: LibraryUse, rows: readonly Put[], removed: readonly Put[] = []): Promise<void> {
  const environment = new LmdbEnvironment(path, { use, create: true, flush: false })
  try {
    await environment.write((target) => {
      for (const [key, value] of rows) target.put(key, value)
    })
    await environment.write((target) => {
      for (const [key] of removed) target.remove(key)
    })
  } finally {
    await environment.close()
  }
}

/** Reads with the environment, in one state. */
async function reading<T>(path: string, use: LibraryUse, read: (environment: LmdbEnvironment) => T): Promise<T> {
  const environment = new LmdbEnvironment(path, { use, flush: false })
  try {
    return read(environment)
  } finally {
    await environment.close()
  }
}

/** All rows, by what the library promises. */
function rowsIn(environment: LmdbEnvironment): Put[] {
  return environment.reader.read((transaction) => {
    const page = environment.reader.page(transaction, {}, storedRange({}), { rows: 10_000, bytes: 100_000_000 })
    return Array.from({ length: page.length }, (_, row): Put => [page.key(row), page.value(row)])
  })
}

function expectSame(found: readonly Put[], right: readonly Put[]): void {
  const same = (a: Uint8Array | undefined, b: Uint8Array) => a !== undefined && Buffer.compare(a, b) === 0
  const isSame =
    found.length === right.length &&
    right.every(([key, value], i) => same(found[i]?.[0], key) && same(found[i]?.[1], value))
  if (!isSame) throw new Error('What is read is not what was written.')
}

async function tryWrites(folder: string): Promise<void> {
  const path = join(folder, 'writes.mdb')
  const rows = sampleRows()
  const removed = rows.filter((_, i) => i % 5 === 0)
  await write(path, useOnly('native_writes'), rows, removed)
  const left = rows.filter((row) => !removed.includes(row))
  expectSame(await reading(path, PROMISED, rowsIn), left)
  await tryCondition(path, left)
}

async function tryCondition(path: string, rows: readonly Put[]): Promise<void> {
  const environment = new LmdbEnvironment(path, { use: useOnly('native_writes'), flush: false })
  const row: Put = [Buffer.from('condition'), versionBytes(1)]
  const attempt = (value: Buffer | undefined) =>
    environment.write((target) => target.put(...row), { key: row[0], value })
  try {
    const outcomes = [await attempt(versionBytes(2)), await attempt(undefined), await attempt(undefined)]
    if (outcomes.join() !== 'false,true,false') throw new Error('A condition of a write is not respected.')
  } finally {
    await environment.close()
  }
  expectSame(await reading(path, PROMISED, rowsIn), [...rows, row])
}

/** The file of the sample rows, written by what the library promises. */
async function sampleFile(folder: string): Promise<string> {
  const path = join(folder, 'sample.mdb')
  if (!existsSync(path)) await write(path, PROMISED, sampleRows())
  return path
}

async function tryReads(folder: string): Promise<void> {
  const rows = sampleRows()
  const found = await reading(await sampleFile(folder), useOnly('native_reads'), (environment) =>
    environment.reader.read((transaction) =>
      rows.map(([key]): Put => [key, environment.reader.get(transaction, key) ?? Buffer.from('missing')]),
    ),
  )
  expectSame(found, rows)
}

async function tryCursors(folder: string): Promise<void> {
  const rows = sampleRows()
  await reading(await sampleFile(folder), useOnly('native_cursors'), (environment) =>
    environment.reader.read((transaction) => {
      for (const [first, last] of [
        [0, 3],
        [17, 17],
        [100, 102],
        [0, 119],
      ] as const) {
        const range = { from: rows[first]![0], to: rows[last]![0] }
        const stored = storedRange(range)
        const count = environment.reader.count(transaction, stored)
        if (count !== last - first) throw new Error(`It counts ${count} rows where there are ${last - first}.`)
        const page = environment.reader.page(transaction, range, stored, { rows: 4, bytes: 1_000_000 })
        const found = Array.from({ length: page.length }, (_, row): Put => [page.key(row), page.value(row)])
        expectSame(found, rows.slice(first, Math.min(last, first + 4)))
      }
    }),
  )
}

async function tryPages(folder: string): Promise<void> {
  const rows = sampleRows()
  const path = join(folder, 'pages.mdb')
  const file = await SortedFile.begin(path, await sampleFile(folder))
  if (!file) throw new Error('The files of this version have another form.')
  const taken = await file.add(packedRows(rows), CUT_KEY_BYTES)
  await file.end()
  if (taken !== rows.length) throw new Error('Rows in key order are not taken.')
  expectSame(await reading(path, PROMISED, rowsIn), rows)
}

async function tryInspection(folder: string): Promise<void> {
  const path = await sampleFile(folder)
  inspectFile(path, { canRepair: false })
  for (const _ of inspectPages(path)) {
    // Throws where something looks wrong.
  }
}

const TRIALS: Readonly<Record<LibraryFeature, Trial>> = {
  native_cursors: tryCursors,
  native_writes: tryWrites,
  native_reads: tryReads,
  page_writer: tryPages,
  page_inspection: tryInspection,
}
