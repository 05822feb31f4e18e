/** Views of any documents, after any edits, asked anything: against the slow and obvious way to answer. */
import fc from 'fast-check'
import { expect } from 'vitest'
import type { JsonValue } from '../../../src/encoding/json/json-value.ts'
import type { TestDatabase } from '../../support/client.ts'
import { answerOf, json, putViews } from '../../support/views.ts'
import { type NaiveParameters, type NaiveRow, type NaiveView, naiveQuery } from '../../views/query/naive-query.ts'
import { anyId, fewOrLongKeys, parametersFor, reducedParametersFor } from '../../views/query/query-arbitraries.ts'

const MAP = 'function (doc) { for (var i = 0; i < doc.rows.length; i++) emit(doc.rows[i][0], doc.rows[i][1]) }'

function total(rows: readonly NaiveRow[]): number {
  return rows.reduce((sum, { value }) => sum + Number(value), 0)
}

/** The views of the design document, and what each is by its definition. */
const VIEWS: Record<string, { reduce?: string; naive: Omit<NaiveView, 'rows'>; raw?: true }> = {
  map: { naive: {} },
  raw: { naive: { collation: 'raw' }, raw: true },
  sum: { reduce: '_sum', naive: { reduce: total } },
  count: { reduce: '_count', naive: { reduce: (rows) => rows.length } },
  custom: { reduce: 'function (keys, values, rereduce) { return sum(values) }', naive: { reduce: total } },
  largest: {
    reduce: 'function (keys, values) { return Math.max.apply(null, values) }',
    naive: { collation: 'raw', reduce: (rows) => Math.max(...rows.map(({ value }) => Number(value))) },
    raw: true,
  },
}

const DESIGN = Object.fromEntries(
  Object.entries(VIEWS).map(([name, { reduce, raw }]) => [
    name,
    { map: MAP, ...(reduce && { reduce }), ...(raw && { options: { collation: 'raw' } }) },
  ]),
)

interface Edit {
  id: string
  /** Empty for a document that emits nothing; undefined for one that is deleted. */
  rows: [key: JsonValue, value: number][] | undefined
}

/** Documents as they are, by id. */
type Documents = Map<string, { rev: string; rows: [JsonValue, number][] }>

async function apply(db: TestDatabase, documents: Documents, edits: readonly Edit[]): Promise<void> {
  const wanted = [...new Map(edits.map((edit) => [edit.id, edit])).values()].filter(
    ({ id, rows }) => rows !== undefined || documents.has(id),
  )
  const docs = wanted.map(({ id, rows }) => ({
    _id: id,
    ...(documents.has(id) && { _rev: documents.get(id)?.rev }),
    ...(rows === undefined ? { _deleted: true } : { rows }),
  }))
  const written = (await db.post('_bulk_docs', { docs })).as<{ id: string; rev: string; error?: string }[]>()
  for (const [i, { id, rev, error }] of written.entries()) {
    expect(error).toBeUndefined()
    const rows = wanted[i]?.rows
    if (rows) documents.set(id, { rev, rows })
    else documents.delete(id)
  }
}

function rowsOf(documents: Documents): NaiveRow[] {
  return [...documents].flatMap(([id, { rows }]) => rows.map(([key, value]) => ({ id, key, value })))
}

/** Ids of documents go as they are; all else is JSON. */
function queryString(parameters: NaiveParameters): string {
  return Object.entries(parameters)
    .map(([name, value]) => `${name}=${name.endsWith('_docid') ? encodeURIComponent(String(value)) : json(value)}`)
    .join('&')
}

async function agree(db: TestDatabase, rows: readonly NaiveRow[], asked: readonly [string, NaiveParameters][]) {
  for (const [name, parameters] of asked) {
    const { keys, ...others } = parameters
    const path = `_design/d/_view/${name}?${queryString(others)}`
    const reply = keys ? await db.post(path, { keys }) : await db.get(path)
    const view = VIEWS[name]
    expect(answerOf(reply), `${path} ${JSON.stringify(keys)}`).toEqual(naiveQuery({ ...view?.naive, rows }, parameters))
  }
}

const batches = fewOrLongKeys.chain((keys) =>
  fc.array(
    fc.array(
      fc.record<Edit>({
        id: fc.tuple(anyId, fc.nat({ max: 9 })).map(([prefix, number]) => `${prefix}${number}`),
        rows: fc.option(fc.array(fc.tuple(fc.constantFrom(...keys), fc.nat({ max: 9 })), { maxLength: 4 }), {
          nil: undefined,
          freq: 4,
        }),
      }),
      { minLength: 1, maxLength: 60, size: 'max' },
    ),
    { minLength: 1, maxLength: 4, size: 'max' },
  ),
)

function questions(rows: readonly NaiveRow[]): fc.Arbitrary<[string, NaiveParameters][]> {
  const one = fc.constantFrom(...Object.keys(VIEWS)).chain((name) => {
    const parameters = VIEWS[name]?.reduce ? reducedParametersFor(rows) : parametersFor(rows)
    return fc.tuple(fc.constant(name), parameters)
  })
  return fc.array(one, { minLength: 4, maxLength: 10 })
}

async function holds(db: TestDatabase, edits: readonly Edit[][], seed: number): Promise<void> {
  await putViews(db, DESIGN)
  const documents: Documents = new Map()
  for (const [i, batch] of edits.entries()) {
    await apply(db, documents, batch)
    const rows = rowsOf(documents)
    const [asked = []] = fc.sample(questions(rows), { numRuns: 1, seed: seed + i })
    await agree(db, rows, asked)
  }
}

/** Throws where an answer is not the one that the definition of the view gives. */
export async function checkQueries(database: () => Promise<TestDatabase>, runs: number): Promise<void> {
  await fc.assert(
    fc.asyncProperty(batches, fc.nat(), async (edits, seed) => holds(await database(), edits, seed)),
    { numRuns: runs },
  )
}
