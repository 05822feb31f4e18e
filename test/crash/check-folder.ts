/**
 * Holds a folder after a crash against what was acknowledged. Every problem is a sentence; none means that all that
 * was promised is there, nothing is half there, and the folder is clean.
 */
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { DataFolder } from '../../src/storage/files/data-folder.ts'
import { isDigest, stemOf } from '../../src/storage/files/store-file.ts'
import { LmdbEngine } from '../../src/storage/lmdb/lmdb-engine.ts'
import type { Snapshot, StorageEngine } from '../../src/storage/store.ts'
import { readAll } from '../storage/model.ts'
import type { ExpectedStore, ExpectedStores } from './store/expectations.ts'
import { commitsIn, stateAfter } from './store/workload.ts'

/** Stores lie below the folder that is locked, as in a server. */
export function storesFolder(folder: string): string {
  return join(folder, 'stores')
}

export async function checkFolder(folder: string, expected: ExpectedStores): Promise<string[]> {
  const dataFolder = await DataFolder.open(folder)
  try {
    const engine = await LmdbEngine.open({ folder: storesFolder(folder) })
    try {
      const problems = await checkStores(engine, expected)
      return [...problems, ...(await checkFiles(storesFolder(folder), await engine.list()))]
    } finally {
      await engine.close()
    }
  } finally {
    dataFolder.close()
  }
}

async function checkStores(engine: StorageEngine, expected: ExpectedStores): Promise<string[]> {
  const problems: string[] = []
  const found = new Set(await engine.list())
  for (const name of found) if (!(name in expected)) problems.push(`There is a store '${name}' that nobody made.`)
  for (const [name, store] of Object.entries(expected)) {
    if (!found.has(name)) {
      if (!store.mayBeMissing) problems.push(`The store '${name}' is missing.`)
      continue
    }
    using snapshot = (await engine.open(name)).snapshot()
    for (const problem of await checkStore(snapshot, store)) problems.push(`In '${name}': ${problem}`)
  }
  return problems
}

async function checkStore(snapshot: Snapshot, expected: ExpectedStore): Promise<string[]> {
  const problems: string[] = []
  const byWriter = new Map<string, Map<string, Buffer>>(
    Object.keys(expected.commits).map((writer) => [writer, new Map()]),
  )
  for (const { key, value } of await readAll(snapshot, {}, 256)) {
    const text = key.toString()
    const writer = text.slice(0, text.indexOf('/'))
    const rows = byWriter.get(writer) ?? new Map<string, Buffer>()
    byWriter.set(writer, rows.set(text, value))
  }
  let commits = 0
  for (const [writer, rows] of byWriter) {
    const n = commitsIn(writer, rows)
    commits += n
    const acknowledged = expected.commits[writer]
    if (acknowledged === undefined && !expected.othersMayWrite) problems.push(`${writer} may have no rows.`)
    if (n < (acknowledged ?? 0)) problems.push(`${writer} lost commits: ${acknowledged} acknowledged, ${n} found.`)
    if (n > (acknowledged ?? 0) + 1) problems.push(`${writer} is ahead: ${acknowledged ?? 0} acknowledged, ${n} found.`)
    const difference = differenceBetween(rows, stateAfter(writer, n))
    if (difference) problems.push(`${writer} has half a commit beside its ${n} commits: ${difference}.`)
  }
  const version = await snapshot.version()
  if (version !== commits) problems.push(`the version is ${version} after ${commits} commits.`)
  if (version < expected.highestVersion) {
    problems.push(`the version is ${version}, and ${expected.highestVersion} was acknowledged.`)
  }
  return problems
}

function differenceBetween(found: ReadonlyMap<string, Buffer>, right: ReadonlyMap<string, Buffer>): string | undefined {
  for (const [key, value] of right) {
    const other = found.get(key)
    if (!other) return `${key} is missing`
    if (!other.equals(value)) return `${key} has another value`
  }
  for (const key of found.keys()) if (!right.has(key)) return `${key} is too much`
  return undefined
}

/** One file a store with its lock, one more where its name is long, and the trash empty. */
async function checkFiles(folder: string, names: readonly string[]): Promise<string[]> {
  const files = await readdir(folder)
  const stores = files.filter((file) => file.endsWith('.mdb'))
  const locks = files.filter((file) => file.endsWith('.mdb-lock'))
  const longNames = names
    .map(stemOf)
    .filter(isDigest)
    .map((stem) => `${stem}.name`)
  const known = new Set([...stores, ...locks, ...longNames, '.trash', '.open-files'])
  const others = files.filter((file) => !known.has(file))
  const trash = await readdir(join(folder, '.trash'))
  const orphans = locks.filter((lock) => !stores.includes(lock.slice(0, -'-lock'.length)))
  return [
    ...(stores.length === names.length
      ? []
      : [
          `There are ${stores.length} files for ${names.length} stores: ${files.join()} for ${names.map(stemOf).join()}.`,
        ]),
    ...[...others, ...orphans, ...trash].map((file) => `The file ${file} was left lying about.`),
  ]
}
