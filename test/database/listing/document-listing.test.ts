/** The rows of a listing, which are put together as bytes, against documents that are opened and written one by one. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { Database } from '../../../src/database/database.ts'
import { bodyKey } from '../../../src/database/layout/keys.ts'
import { bodyPlaces } from '../../../src/database/layout/read-bodies.ts'
import { listRange } from '../../../src/database/listing/all-documents.ts'
import type { DocumentsWanted } from '../../../src/database/listing/document-listing.ts'
import { listKeys } from '../../../src/database/listing/listed-texts.ts'
import { stubText } from '../../../src/database/reading/document-text.ts'
import { openDocument } from '../../../src/database/reading/open-document.ts'
import { MemoryEngine } from '../../../src/storage/memory/memory-engine.ts'
import { replyChunks, textsOf } from '../../../src/views/query/row-query.ts'
import { memoryDatabase, put, replicated, surroundings, written } from '../test-database.ts'

const ALL = { inclusiveEnd: true, descending: false, skip: 0, limit: Number.POSITIVE_INFINITY }

interface Asked {
  readonly descending?: boolean
  readonly limit?: number
  readonly documents?: DocumentsWanted
}

/** The texts of all rows, which must be those of the whole reply too. */
async function listed(database: Database, { documents, ...asked }: Asked): Promise<string[]> {
  using view = database.lastingView()
  const query = { ...ALL, ...asked, documents }
  const texts: string[] = []
  for await (const block of (await listRange(database, view, query)).rows()) texts.push(...(await textsOf(block)))
  let reply = ''
  for await (const chunk of replyChunks({}, (await listRange(database, view, query)).rows())) reply += String(chunk)
  expect(reply).toBe(`{"rows":[\r\n${texts.join(',\r\n')}\r\n]}\n`)
  return texts
}

/** The same, made of opened documents. */
async function opened(database: Database, ids: readonly string[], wanted?: DocumentsWanted): Promise<string[]> {
  using view = database.view()
  const rows: string[] = []
  for (const id of ids) {
    const document = await openDocument(view, id, { conflicts: wanted?.conflicts ?? false })
    const row = JSON.stringify({ id, key: id, value: { rev: document.revision } })
    rows.push(wanted ? `${row.slice(0, -1)},"doc":${stubText(document, wanted)}}` : row)
  }
  return rows
}

function inOrder(ids: readonly string[]): string[] {
  return ids.toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
}

const documents: DocumentsWanted = { conflicts: false, contents: undefined, encodingInfo: false }
const withConflicts: DocumentsWanted = { ...documents, conflicts: true }

const id = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 40 }).filter((text) => !text.startsWith('_'))
const members = fc.dictionary(fc.constantFrom('a', 'b', 'ä"'), fc.jsonValue(), { maxKeys: 3 })

describe('rows of a listing', () => {
  it('are those of the documents, whatever ids and bodies they have', async () => {
    await fc.assert(
      fc.asyncProperty(fc.dictionary(id, members, { maxKeys: 30, noNullPrototype: true }), async (contents) => {
        const { database } = await memoryDatabase()
        const ids = Object.keys(contents)
        await written(database.write(ids.map((each) => put(each, contents[each] ?? {}))))
        const sorted = inOrder(ids)
        expect(await listed(database, {})).toEqual(await opened(database, sorted))
        expect(await listed(database, { documents })).toEqual(await opened(database, sorted, documents))
        expect(await listed(database, { documents, descending: true })).toEqual(
          await opened(database, sorted.toReversed(), documents),
        )
      }),
      { numRuns: 40 },
    )
  })

  it('come to an end where every state is released between two reads', async () => {
    const store = await new MemoryEngine().create('test')
    Object.assign(store, { holding: { idleMs: 1000, idleStates: 0 } })
    const database = await Database.create(store, surroundings())
    // Several portions.
    const ids = Array.from({ length: 12 }, (_, i) => `doc-${String(i).padStart(2, '0')}`)
    await written(database.write(ids.map((each) => put(each, { large: 'x'.repeat(100_000) }))))
    const expected = await opened(database, ids, documents)
    const withContents = { ...documents, contents: database.attachments }
    expect(await listed(database, { documents: withContents })).toEqual(expected)
    using view = database.lastingView()
    const texts: string[] = []
    for await (const block of listKeys(view, ids, documents)) texts.push(...(await textsOf(block)))
    expect(texts).toEqual(expected)
  })

  it('show revisions of any form and conflicts', async () => {
    const { database } = await memoryDatabase()
    const hash = 'a'.repeat(32)
    await written(
      database.write([
        replicated('long lived', { start: 1234, hashes: [hash] }, { n: 1 }),
        replicated('of another server', { start: 1, hashes: ['"a\\b"\nä'] }, { n: 2 }),
        replicated('torn', { start: 2, hashes: ['b'.repeat(32), hash] }, { n: 3 }),
        replicated('torn', { start: 2, hashes: ['c'.repeat(32), hash] }, { n: 4 }),
        put('young', {}),
      ]),
    )
    const ids = ['long lived', 'of another server', 'torn', 'young']
    expect(await listed(database, {})).toEqual(await opened(database, ids))
    expect(await listed(database, { documents })).toEqual(await opened(database, ids, documents))
    const torn = await listed(database, { documents: withConflicts })
    expect(torn).toEqual(await opened(database, ids, withConflicts))
    expect(JSON.parse(torn[2] ?? '').doc).toMatchObject({ n: 4, _conflicts: [`2-${'b'.repeat(32)}`] })
  })

  it('continue over deleted documents, pages and portions, to their limit', async () => {
    const { database } = await memoryDatabase()
    const ids = Array.from({ length: 1500 }, (_, n) => String(n).padStart(5, '0'))
    const text = 'x'.repeat(500)
    const revisions = await written(database.write(ids.map((each) => put(each, { text }))))
    const gone = (n: number) => n % 3 === 1 || (n > 100 && n < 900)
    const edits = ids.map((each, n) => put(each, { text, n }, { parent: revisions[n], deleted: gone(n) }))
    // In another order than that of the ids: their bodies are scattered then.
    await written(database.write(edits.filter((_, n) => n % 2 === 0 || gone(n)).toReversed()))
    const live = ids.filter((_, n) => !gone(n))
    const whole = await opened(database, live, documents)
    expect(await listed(database, { documents })).toEqual(whole)
    expect(await listed(database, {})).toEqual(await opened(database, live))
    for (const limit of [1, 68, 69, 300, whole.length]) {
      expect(await listed(database, { documents, limit })).toEqual(whole.slice(0, limit))
      expect(await listed(database, { limit, descending: true })).toHaveLength(limit)
    }
  })
})

describe('bodies of many documents', () => {
  it('are found wherever they are stored, in the order in which they are requested', async () => {
    const engine = new MemoryEngine()
    const store = await engine.create('bodies')
    const stored = Array.from({ length: 400 }, (_, number) => number).filter((number) => number % 7 !== 0)
    await store.commit({ puts: stored.map((number) => [bodyKey(number), Buffer.from(`body ${number}`)] as const) })
    using snapshot = store.snapshot()
    await fc.assert(
      fc.asyncProperty(fc.uniqueArray(fc.constantFrom(...stored)), fc.boolean(), async (numbers, isSorted) => {
        const asked = isSorted ? numbers.toSorted((a, b) => a - b) : numbers
        const places = await bodyPlaces(snapshot, asked)
        const texts = places.map(({ block, start, end }) => block.toString('utf8', start, end))
        expect(texts).toEqual(asked.map((number) => `body ${number}`))
      }),
    )
  })

  it('are found among large ones that were not requested', async () => {
    const engine = new MemoryEngine()
    const store = await engine.create('bodies')
    const large = Buffer.alloc(300_000)
    const numbers = Array.from({ length: 20 }, (_, number) => number)
    await store.commit({
      puts: numbers.map((number) => [bodyKey(number), number % 2 === 0 ? Buffer.of(number) : large] as const),
    })
    using snapshot = store.snapshot()
    const asked = numbers.filter((number) => number % 2 === 0)
    const places = await bodyPlaces(snapshot, asked)
    expect(places.map(({ block, start, end }) => [...block.subarray(start, end)])).toEqual(asked.map((each) => [each]))
  })
})
