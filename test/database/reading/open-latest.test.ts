import { describe, expect, it } from 'vitest'
import type { DatabaseView, DocumentRows } from '../../../src/database/database-view.ts'
import { openDocument, openLatest } from '../../../src/database/reading/open-document.ts'
import { memoryDatabase, put, remove, written } from '../test-database.ts'

/** A document that is read without a snapshot: its rows may be of different states. */
describe('the newest state of a document', () => {
  it('is what a snapshot gives', async () => {
    const view = await example()
    expect(await openLatest(view, 'here', { localSequence: true })).toEqual(
      await openDocument(view, 'here', { localSequence: true }),
    )
    await expect(openLatest(view, 'gone', {})).rejects.toThrow('deleted')
    await expect(openLatest(view, 'nobody', {})).rejects.toThrow('missing')
  })

  it('is left to a snapshot where its body is gone, or where its history is asked for', async () => {
    const view = await example()
    const withoutBody: DocumentRows = {
      reading: undefined,
      record: (id) => view.record(id),
      findBody: async () => undefined,
      local: (id) => view.local(id),
    }
    expect(await openLatest(withoutBody, 'here', {})).toBeUndefined()
    expect(await openLatest(view, 'here', { conflicts: true })).toBeUndefined()
  })
})

async function example(): Promise<DatabaseView> {
  const { database } = await memoryDatabase()
  const [, revision = ''] = await written(database.write([put('here', { a: 1 }), put('gone', {})]))
  await written(database.write([remove('gone', revision)]))
  return database.view()
}
