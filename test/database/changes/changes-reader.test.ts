import { describe, expect, it } from 'vitest'
import { type ChangeFilter, documentIdFilter } from '../../../src/database/changes/change-filter.ts'
import { type ChangesQuery, ChangesReader } from '../../../src/database/changes/changes-reader.ts'
import type { Database } from '../../../src/database/database.ts'
import { memoryDatabase, put, written } from '../test-database.ts'

const NOTHING = Buffer.alloc(0)
const LINE_END = Buffer.from('}\n')

function query(options: Partial<ChangesQuery> = {}): ChangesQuery {
  return {
    since: 0,
    descending: false,
    limit: Number.POSITIVE_INFINITY,
    leaves: 'winner',
    documents: undefined,
    filter: undefined,
    frame: { before: NOTHING, after: () => LINE_END, between: NOTHING },
    sharedAs: undefined,
    ...options,
  }
}

function ids(text: unknown): string[] {
  return String(text)
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line).id)
}

/** The ids of all that comes up to the end. */
async function readToEnd(reader: ChangesReader): Promise<string[]> {
  const found: string[] = []
  for (;;) {
    const { text, isEnd } = await reader.next()
    found.push(...ids(text))
    if (isEnd || reader.isSatisfied) return found
  }
}

/** New revisions of documents; gives their revisions. */
async function write(database: Database, names: readonly string[], parents: readonly string[] = []): Promise<string[]> {
  return written(database.write(names.map((name, i) => put(name, {}, { parent: parents[i] }))))
}

const NAMES = Array.from({ length: 250 }, (_, i) => `doc-${i}`)

describe('a reader of changes', () => {
  it('continues after the last sequence that it read', async () => {
    const { database } = await memoryDatabase()
    const reader = new ChangesReader(database, query())
    expect(await readToEnd(reader)).toEqual([])
    await write(database, ['a', 'b'])
    expect([await readToEnd(reader), reader.cursor]).toEqual([['a', 'b'], 2])
    await write(database, ['c'])
    expect(await readToEnd(reader)).toEqual(['c'])
  })

  it('continues after changes of named documents that changed again in the meantime', async () => {
    const { database } = await memoryDatabase()
    const revisions = await write(database, NAMES)
    const reader = new ChangesReader(database, query({ filter: documentIdFilter(NAMES) }))
    const { text } = await reader.next()
    const first = ids(text)
    expect(first).toEqual(NAMES.slice(0, first.length))
    await write(database, NAMES, revisions)
    expect(await readToEnd(reader)).toEqual([])
    expect(await readToEnd(reader)).toEqual(NAMES)
    expect(reader.cursor).toBe(500)
  })

  it('does not take part in a reading that was begun before the last commit', async () => {
    const { database } = await memoryDatabase()
    await write(database, ['a'])
    const [early, late] = [1, 2].map(() => new ChangesReader(database, query({ since: 1, sharedAs: 'x' })))
    const reading = early?.next()
    await write(database, ['b'])
    expect(ids((await late?.next())?.text)).toEqual(['b'])
    await reading
  })

  it('returns no more than were requested, and is positioned after the last of them', async () => {
    const { database } = await memoryDatabase()
    await write(database, NAMES)
    const even: ChangeFilter = {
      by: 'document',
      passes: async (documents) => documents.map((text) => Number(JSON.parse(text)._id.slice(4)) % 2 === 0),
    }
    const reader = new ChangesReader(database, query({ filter: even, limit: 60 }))
    expect(await readToEnd(reader)).toEqual(NAMES.filter((_, i) => i % 2 === 0).slice(0, 60))
    expect([reader.cursor, reader.shown, reader.isSatisfied]).toEqual([119, 119, true])
  })

  it('goes backwards, over all there is', async () => {
    const { database } = await memoryDatabase()
    await write(database, NAMES)
    const reader = new ChangesReader(database, query({ descending: true, since: 200 }))
    expect(await readToEnd(reader)).toEqual(NAMES.toReversed())
  })

  it('continues in a newer state of its view, with changed documents at their new sequence', async () => {
    const { database } = await memoryDatabase()
    const revisions = await write(database, NAMES)
    const documents = { conflicts: false, encodingInfo: false, contents: undefined }
    const reader = new ChangesReader(database, query({ documents }))
    using view = database.lastingView()
    const found = ids((await reader.nextIn(view)).text)
    expect(found).toEqual(NAMES.slice(0, 100))
    await write(database, ['doc-0', 'doc-249', 'new'], [revisions[0] ?? '', revisions[249] ?? ''])
    view.renew()
    for (let isEnd = false; !isEnd; ) {
      const block = await reader.nextIn(view)
      found.push(...ids(block.text))
      isEnd = block.isEnd
    }
    expect(found).toEqual([...NAMES.slice(0, 249), 'doc-0', 'doc-249', 'new'])
  })
})
