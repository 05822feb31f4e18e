import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Database } from '../../src/database/database.ts'
import { buildIndex } from '../../src/views/building/first-build.ts'
import { RunFiles } from '../../src/views/building/run-files.ts'
import { memoryRuns, type SortedRuns } from '../../src/views/building/sorted-runs.ts'
import { indexStoreName } from '../../src/views/store-name.ts'
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

async function create({ databases }: TestViews<LocalFunctions>, name: string): Promise<Database> {
  await databases.create(name)
  return databases.get(name)
}

/** Builds in runs of a few rows; some edits are made before each run after the first one. */
async function build(
  { functions, indexEngine }: TestViews<LocalFunctions>,
  database: Database,
  runs: SortedRuns,
  edits: ModelEdit[][],
): Promise<void> {
  const store = await indexEngine.create(indexStoreName(database.name, MODEL_DESIGN.signature))
  const source = { uuid: database.uuid, view: () => database.view() }
  const rest = edits.map((portion) => portion.filter((edit) => edit.do !== 'purge'))
  functions.beforeMap = async () => applyEdits(database, rest.shift() ?? [])
  const run = { owner: database.name }
  const request = { source, store, runs, sortBytes: 500, design: MODEL_DESIGN, functions, run, onProgress: () => {} }
  const target = (await database.information()).updateSequence
  const state = await buildIndex(request, { target, onRead: () => {}, batchChanges: 3 })
  functions.beforeMap = async () => {}
  expect(state?.updateSequence).toBeGreaterThanOrEqual(target)
}
