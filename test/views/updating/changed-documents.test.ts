import { expect, it } from 'vitest'
import { readChanged } from '../../../src/views/updating/changed-documents.ts'
import { put } from '../../database/test-database.ts'
import { memoryViews } from '../test-views.ts'

const OPTIONS = { localSequence: false, includeDesign: false }

it.each([
  [2, false],
  [3, true],
  [4, true],
])('a batch of up to %i of three changes is the last one: %s', async (changes, isLast) => {
  const { databases } = await memoryViews()
  await databases.create('db')
  const database = await databases.get('db')
  await database.write(['a', 'b', 'c'].map((id) => put(id, {})))
  using view = database.view()
  const batch = await readChanged(view, 0, OPTIONS, { changes, bytes: 1_000_000 })
  expect(batch).toMatchObject({ isLast, changes: Math.min(changes, 3), updateSequence: Math.min(changes, 3) })
})
