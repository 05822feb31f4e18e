/**
 * Queries by selector against a plain evaluation: random documents, random selectors over every operator, without indexes
 * and with several, read in pages. What comes back and its order agree.
 */
import fc from 'fast-check'
import { expect } from 'vitest'
import type { Client, TestDatabase } from '../../support/client.ts'
import { compareJson, fieldOf, type Json, naiveMatch } from '../../support/naive-selector.ts'
import { smallDocument, smallSelector } from '../../support/random-selectors.ts'

type Document = Record<string, Json> & { _id: string }

interface FindReply {
  docs: Document[]
  bookmark?: string
  count?: number
}

const INDEXES: readonly (readonly string[])[] = [['a'], ['b', 'a'], ['c'], ['a', 'b', 'c'], ['a.a'], ['d', '_id']]

async function filled(client: Client, documents: readonly Document[]): Promise<TestDatabase> {
  const db = await client.database()
  const reply = await db.post('_bulk_docs', { docs: documents })
  expect(reply.status).toBe(201)
  return db
}

async function found(db: TestDatabase, query: object): Promise<FindReply> {
  const reply = await db.post('_find', query)
  expect(reply.status, `${JSON.stringify(query)}: ${reply.text}`).toBe(200)
  return reply.as<FindReply>()
}

/** All pages, one after the other. */
async function paged(db: TestDatabase, query: object, limit: number): Promise<Document[]> {
  const documents: Document[] = []
  for (let bookmark: string | undefined; ; ) {
    const page = await found(db, { ...query, limit, ...(bookmark && { bookmark }) })
    documents.push(...page.docs)
    if (page.docs.length < limit) return documents
    bookmark = page.bookmark
  }
}

function ids(documents: readonly { readonly _id: string }[]): string[] {
  return documents.map(({ _id }) => _id)
}

function byId(a: Document, b: Document): number {
  return Buffer.compare(Buffer.from(a._id), Buffer.from(b._id))
}

function valueIn(document: Document, name: string): Json {
  const field = fieldOf(document, name)
  return field.state === 'found' ? field.value : null
}

function inOrderOf(columns: readonly string[]) {
  return (a: Document, b: Document) =>
    compareJson(
      columns.map((name) => valueIn(a, name)),
      columns.map((name) => valueIn(b, name)),
    )
}

function byColumns(columns: readonly string[]) {
  const compare = inOrderOf(columns)
  return (a: Document, b: Document) => compare(a, b) || byId(a, b)
}

const documentsOf = fc
  .array(smallDocument, { minLength: 20, maxLength: 60 })
  .map((documents) => documents.map((document, i): Document => ({ _id: `${'abcA'[i % 4]}${i}`, ...document })))

export async function checkQueries(
  client: Client,
  { runs, selectors }: { runs: number; selectors: number },
): Promise<void> {
  const some = fc.array(smallSelector, { minLength: selectors, maxLength: selectors })
  await fc.assert(
    fc.asyncProperty(documentsOf, some, (documents, asked) => checkDatabase(client, documents, asked)),
    { numRuns: runs },
  )
}

async function checkDatabase(
  client: Client,
  documents: readonly Document[],
  selectors: readonly Record<string, Json>[],
): Promise<void> {
  const db = await filled(client, documents)
  const expectedOf = (selector: Json) => documents.filter((document) => naiveMatch(selector, document)).toSorted(byId)
  for (const selector of selectors) {
    const { docs } = await found(db, { selector, limit: 1000 })
    expect(ids(docs), JSON.stringify(selector)).toEqual(ids(expectedOf(selector)))
  }
  for (const [i, fields] of INDEXES.entries()) {
    const reply = await db.post('_index', { index: { fields }, ddoc: `i${i}`, name: 'n' })
    expect(reply.status, reply.text).toBe(200)
  }
  for (const selector of selectors) {
    const what = JSON.stringify(selector)
    const expected = expectedOf(selector)
    const all = await found(db, { selector, limit: 1000, count: true })
    expect(ids(all.docs).toSorted(), what).toEqual(ids(expected).toSorted())
    expect(all.count, what).toBe(expected.length)
    expect(ids(await paged(db, { selector }, 3)), what).toEqual(ids(all.docs))
    const skipped = await found(db, { selector, skip: 2, limit: 1000 })
    expect(ids(skipped.docs), what).toEqual(ids(all.docs).slice(2))
    await checkSorted(db, documents, selector)
  }
}

/**
 * Each index whose fields the selector needs gives its order, upwards and downwards, with documents or from its rows.
 * Documents that are equal in what the query sorts by come in the order of the other fields of the index that is used.
 */
async function checkSorted(db: TestDatabase, documents: readonly Document[], selector: Json): Promise<void> {
  for (const columns of [['a'], ['b', 'a'], ['c'], ['a', 'b', 'c']]) {
    const needed = Object.fromEntries(columns.map((name) => [name, { $exists: true }]))
    const query = { selector: { $and: [selector, needed] }, sort: columns, limit: 1000 }
    const matching = documents.filter((document) => naiveMatch(query.selector, document))
    const expectedOf = async (asked: object) => matching.toSorted(byColumns(await columnsOf(db, asked)))
    const what = JSON.stringify(query)
    const expected = await expectedOf(query)
    expect(expected, what).toEqual(expected.toSorted(inOrderOf(columns)))
    expect(ids((await found(db, query)).docs), what).toEqual(ids(expected))
    const downwards = { ...query, sort: columns.map((name) => ({ [name]: 'desc' })) }
    const reversed = ids((await expectedOf(downwards)).toReversed())
    expect(ids((await found(db, downwards)).docs), what).toEqual(reversed)
    expect(ids(await paged(db, downwards, 4)), what).toEqual(reversed)
    const covered = { ...query, fields: [...columns, '_id'] }
    expect((await found(db, covered)).docs, what).toEqual(
      (await expectedOf(covered)).map((document) => ({
        ...Object.fromEntries(columns.map((name) => [name, document[name]])),
        _id: document._id,
      })),
    )
  }
}

/** The fields of the index that the query uses. */
async function columnsOf(db: TestDatabase, query: object): Promise<string[]> {
  const reply = await db.post('_explain', query)
  expect(reply.status, reply.text).toBe(200)
  const { index } = reply.as<{ index: { def: { fields: Record<string, string>[] } } }>()
  return index.def.fields.flatMap((field) => Object.keys(field))
}
