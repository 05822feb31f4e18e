import { describe, it } from 'vitest'
import { lmdbViews, memoryViews } from './test-views.ts'
import { checkModel } from './view-model.ts'

describe.each([
  { engine: 'memory', open: memoryViews, runs: 15 },
  { engine: 'LMDB', open: lmdbViews, runs: 10 },
])('an index on $engine', ({ open, runs }) => {
  it('shows what a naive evaluation of all documents shows, after every portion of edits', async () => {
    await checkModel(await open(), runs)
  })
})
