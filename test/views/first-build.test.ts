import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Database } from '../../src/database/database.ts'
import { buildIndex } from '../../src/views/building/first-build.ts'
import { RunFiles } from '../../src/views/building/run-files.ts'
import { memoryRuns, type SortedRuns } from '../../src/views/building/sorted-runs.ts'
import { indexStoreName } from '../../src/views/index-store-name.ts'
import type { UpdateRequest } from '../../src/views/updating/update-request.ts'
import { put } from '../database/test-database.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import type { LocalFunctions } from './local-functions.ts'
import { memoryViews, type TestViews } from './test-views.ts'
import { applyEdits, expectWhole, MODEL_DESIGN, type ModelEdit, portions } from './view-model.ts'

describe.each([
  { kind: 'in memory', open: async (): Promise<SortedRuns> => memoryRuns },
  { kind: 'in files', open: async (): Promise<SortedRuns> => new RunFiles(join(await temporaryFolder(), 'runs')) },
])('a first build with runs $kind', ({ open }) => {
  it('makes the index of all documents, though they change between the runs', async () => {
    const test = await memoryViews()
    const runs = await open()
    let number = 0
    await fc.assert(
      fc.asyncProperty(portions, async ([first = [], ...later]) => {
        const database = await create(test, `db${++number}`)
        await applyEdits(database, first)
        await build(test, database, runs, later)
        await expectWhole(test.views, database)
        await test.databases.delete(database.name)
      }),
      { numRuns: 12 },
    )
  })
})

it('takes up the runs that a crash left, and maps only what came later', async () => {
  const test = await memoryViews()
  const database = await create(test, 'db')
  await database.write(Array.from({ length: 30 }, (_, n) => put(`n${n}`, { kind: 'a', n })))
  const runs = new RunFiles(join(await temporaryFolder(), 'runs'))
  let mapped = 0
  test.functions.beforeMap = async () => {
    if (++mapped > 6) throw new Error('The server crashed.')
  }
  const request = await requestFor(test, database, runs)
  await expect(buildIndex(request, { target: 30, onRead: () => {}, batchChanges: 3 })).rejects.toThrow('crashed')
  test.functions.beforeMap = async () => {}
  test.functions.counts.mapped = 0
  expect(await buildIndex(request, { target: 30, onRead: () => {}, batchChanges: 3 })).toBeDefined()
  // The batch after the last one of a run is read ahead in vain: all documents would take 57.
  expect(test.functions.counts.mapped).toBeLessThan(45)
  await expectWhole(test.views, database)
})

async function create({ databases }: TestViews<LocalFunctions>, name: string): Promise<Database> {
  await databases.create(name)
  return databases.get(name)
}

/** Builds in runs of a few rows; some edits are made before each run after the first one. */
async function build(
  test: TestViews<LocalFunctions>,
  database: Database,
  runs: SortedRuns,
  edits: ModelEdit[][],
): Promise<void> {
  const { functions } = test
  const rest = edits.map((portion) => portion.filter((edit) => edit.do !== 'purge'))
  functions.beforeMap = async () => applyEdits(database, rest.shift() ?? [])
  const request = await requestFor(test, database, runs)
  const target = (await database.information()).updateSequence
  const state = await buildIndex(request, { target, onRead: () => {}, batchChanges: 3 })
  functions.beforeMap = async () => {}
  expect(state?.updateSequence).toBeGreaterThanOrEqual(target)
}

async function requestFor(
  { functions, indexEngine }: TestViews<LocalFunctions>,
  database: Database,
  runs: SortedRuns,
): Promise<UpdateRequest> {
  return {
    source: { uuid: database.uuid, view: () => database.view() },
    store: await indexEngine.create(indexStoreName(database.name, MODEL_DESIGN.signature)),
    runs,
    sortBytes: 500,
    design: MODEL_DESIGN,
    functions,
    run: { owner: database.name },
    onProgress: () => {},
  }
}
