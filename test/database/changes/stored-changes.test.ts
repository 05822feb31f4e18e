import { describe, expect, it } from 'vitest'
import { ChangesReader } from '../../../src/database/changes/changes-reader.ts'
import { readLeafChanges } from '../../../src/database/changes/stored-changes.ts'
import type { Database } from '../../../src/database/database.ts'
import { openOnly } from '../../../src/database/reading/open-many.ts'
import { memoryDatabase, put, remove, replicated, written } from '../test-database.ts'

const hash = (letter: string) => letter.repeat(32)

/** Documents with everything that a change can contain. */
async function filled(): Promise<Database> {
  const { database } = await memoryDatabase()
  const [updated, deleted = ''] = await written(database.write(['updated', 'deleted'].map((id) => put(id, { id }))))
  await written(database.write([put('updated', { n: 2 }, { parent: updated })]))
  await written(database.write([remove('deleted', deleted)]))
  const ids = ['plain', 'ünï', '"quoted"', 'back\\slash', 'line\nbreak', '_design/d', 'x'.repeat(300)]
  await written(database.write(ids.map((id) => put(id, { id }))))
  await written(
    database.write([
      replicated('conflict', { start: 1, hashes: [hash('a')] }, { n: 1 }),
      replicated('conflict', { start: 1, hashes: [hash('b')] }, { n: 2 }),
      replicated('own hash', { start: 1, hashes: ['chosen'] }, {}),
      replicated('cut', { start: 7, hashes: [hash('c')] }, {}),
      replicated('tombstone', { start: 1, hashes: [hash('d')] }, {}, true),
    ]),
  )
  return database
}

async function feed(database: Database, leaves: 'winner' | 'all') {
  const reader = new ChangesReader(database, {
    since: 0,
    descending: false,
    limit: Number.POSITIVE_INFINITY,
    leaves,
    documents: undefined,
    filter: undefined,
    frame: { before: Buffer.alloc(0), after: () => Buffer.from('}'), between: Buffer.from(',') },
    sharedAs: undefined,
  })
  const rows: { seq: number; id: string; changes: { rev: string }[] }[] = JSON.parse(`[${(await reader.next()).text}]`)
  return rows.map(({ seq, id, changes }) => ({ sequence: seq, id, revisions: changes.map(({ rev }) => rev) }))
}

describe('changes as they are stored', () => {
  it.each(['winner', 'all'] as const)('are those of the feed, %s', async (leaves) => {
    const database = await filled()
    using view = database.view()
    const { changes, looked, isEnd } = await readLeafChanges(view, 0, leaves)
    expect(changes.map(({ sequence, id, revisions }) => ({ sequence, id, revisions }))).toEqual(
      await feed(database, leaves),
    )
    expect([looked, isEnd]).toEqual([changes.at(-1)?.sequence, true])
    const behind = await readLeafChanges(view, 3, leaves)
    expect(behind.changes).toEqual(changes.filter(({ sequence }) => sequence > 3))
  })

  it('contain everything of documents with one revision', async () => {
    const database = await filled()
    using view = database.view()
    const { changes } = await readLeafChanges(view, 0, 'all')
    const only = changes.flatMap(({ id, only }) => (only ? [{ id, only }] : []))
    expect(only.map(({ id }) => id)).toEqual(['plain', 'ünï', '_design/d', 'x'.repeat(300), 'tombstone'])
    const opened = (await openOnly(view, only)) ?? []
    expect(opened.map(({ parts, deleted }) => [parts.id, parts.revisions?.start, String(parts.body), deleted])).toEqual(
      only.map(({ id, only: { deleted } }) => [id, 1, deleted ? '{}' : JSON.stringify({ id }), deleted]),
    )
  })

  it('are found to be of the past where the body is gone', async () => {
    const { database } = await memoryDatabase()
    const [first = ''] = await written(database.write([put('a', { n: 1 })]))
    using before = database.view()
    const { changes } = await readLeafChanges(before, 0, 'all')
    const only = changes.flatMap((change) => (change.only ? [{ id: change.id, only: change.only }] : []))
    await written(database.write([put('a', { n: 2 }, { parent: first })]))
    database.compact()
    await database.compacted()
    using after = database.view()
    expect(await openOnly(after, only)).toBeUndefined()
    expect(await openOnly(before, only)).toHaveLength(1)
    expect(await openOnly(before, [])).toBeUndefined()
  })
})
