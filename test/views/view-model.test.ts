import fc from 'fast-check'
import { describe, it } from 'vitest'
import { lmdbViews, memoryViews } from './test-views.ts'
import { applyEdits, expectWhole, portions } from './view-model.ts'

describe.each([
  { engine: 'memory', open: memoryViews, runs: 15 },
  { engine: 'LMDB', open: lmdbViews, runs: 10 },
])('an index on $engine', ({ open, runs }) => {
  it('shows what a naive evaluation of all documents shows, after every portion of edits', async () => {
    const { databases, views } = await open()
    let number = 0
    await fc.assert(
      fc.asyncProperty(portions, async (all) => {
        const name = `db${++number}`
        await databases.create(name)
        const database = await databases.get(name)
        for (const edits of all) {
          await applyEdits(database, edits)
          await expectWhole(views, database)
        }
        await databases.delete(name)
      }),
      { numRuns: runs },
    )
  })
})
