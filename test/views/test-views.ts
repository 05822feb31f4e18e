/** Databases and their indexes for tests of this folder, on either engine, and what an index holds, read row by row. */
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { Databases } from '../../src/database/databases.ts'
import type { Functions } from '../../src/functions/functions.ts'
import { systemClock } from '../../src/runtime/clock.ts'
import { type Log, silentLog } from '../../src/runtime/log/log.ts'
import { TaskRegistry } from '../../src/runtime/tasks.ts'
import { LmdbEngine } from '../../src/storage/lmdb/lmdb-engine.ts'
import { MemoryEngine } from '../../src/storage/memory/memory-engine.ts'
import type { KeyRange, StorageEngine } from '../../src/storage/store.ts'
import { type ViewDesign, viewDesign } from '../../src/views/design/view-design.ts'
import { rowPrefix, StoredRow } from '../../src/views/layout/index-layout.ts'
import type { OpenView } from '../../src/views/reading/open-index.ts'
import { LocalRunner } from '../../src/views/updating/index-runner.ts'
import { Views } from '../../src/views/views.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { LocalFunctions } from './local-functions.ts'

export interface TestViews<F extends Functions> {
  readonly databases: Databases
  readonly views: Views
  readonly functions: F
  readonly tasks: TaskRegistry
  readonly indexEngine: StorageEngine
}

export async function memoryViews(): Promise<TestViews<LocalFunctions>> {
  return viewsOn(new MemoryEngine(), new MemoryEngine())
}

export async function lmdbViews(): Promise<TestViews<LocalFunctions>> {
  const folder = await temporaryFolder()
  const engine = await LmdbEngine.open({ folder })
  const indexEngine = await LmdbEngine.open({ folder: join(folder, 'indexes') })
  return viewsOn(engine, indexEngine)
}

export async function viewsOn(
  engine: StorageEngine,
  indexEngine: StorageEngine,
  log: Log = silentLog,
): Promise<TestViews<LocalFunctions>> {
  const tasks = new TaskRegistry(systemClock)
  const functions = new LocalFunctions()
  const databases = new Databases(engine, { clock: systemClock, log: silentLog, tasks })
  const runner = new LocalRunner(functions)
  const views = await Views.open({ databases, engine: indexEngine, functions, runner, tasks, log })
  onTestFinished(async () => {
    await views.close()
    await databases.close()
    await engine.close()
    await indexEngine.close()
  })
  return { databases, views, functions, tasks, indexEngine }
}

/** A design document with these members. */
export function design(members: Record<string, unknown>): ViewDesign {
  return viewDesign('_design/test', members, { isPartitioned: false })
}

export interface Row {
  readonly id: string
  readonly key: unknown
  readonly value: unknown
}

export async function rowsOf(view: OpenView): Promise<Row[]> {
  const rows: Row[] = []
  const from = rowPrefix(view.number)
  let rest: KeyRange | undefined = { from, to: rowPrefix(view.number + 1) }
  while (rest) {
    const page = await view.snapshot.page(rest)
    for (let row = 0; row < page.length; row++) {
      rows.push(JSON.parse(new StoredRow(page.value(row)).line.toString()))
    }
    rest = page.next
  }
  return rows
}

/** What all rows reduce to; undefined when there are none. */
export async function reducedOf(view: OpenView): Promise<unknown> {
  const parts = await view.ranks.reduceRange(view.snapshot, undefined, undefined)
  if (parts.length === 0) return undefined
  const [text] = (await view.reduce?.combine([parts])) ?? []
  return JSON.parse(text ?? 'null')
}
