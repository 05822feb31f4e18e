import { describe, it } from 'vitest'
import { lmdbViews, memoryViews } from './test-views.ts'
import { checkModel } from './view-model.ts'

describe.each([
  { engine: 'memory', open: memoryViews },
  { engine: 'LMDB', open: lmdbViews },
])('an index on $engine, for very many edits', ({ open }) => {
  it('shows what a naive evaluation of all documents shows, after every portion of them', async () => {
    await checkModel(await open(), 500)
  })
})
