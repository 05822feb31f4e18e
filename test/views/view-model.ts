/**
 * Random edits, deletions, conflicts and purges of a database, in random portions: after each portion the index must
 * show what a naive evaluation of all documents shows, and its rank trees must be whole.
 */
import fc from 'fast-check'
import { expect } from 'vitest'
import type { Database } from '../../src/database/database.ts'
import type { RevisionId } from '../../src/document/ids.ts'
import type { ViewDesign } from '../../src/views/design/view-design.ts'
import type { Views } from '../../src/views/views.ts'
import { put } from '../database/test-database.ts'
import type { LocalFunctions } from './local-functions.ts'
import { naiveReduction, naiveRows } from './naive-views.ts'
import { design, reducedOf, rowsOf, type TestViews } from './test-views.ts'

const JOIN = `function (keys, values, rereduce) {
  return rereduce ? values.reduce(function (sum, each) { return [sum[0] + each[0], sum[1] + each[1]] })
    : [values.length, values.reduce(function (sum, each) { return sum + each }, 0)]
}`

const BY_KIND = 'function (doc) { emit([doc.kind, doc.n], doc.n); if (doc.n % 2) emit(doc.kind, doc.n) }'

export const MODEL_DESIGN = design({
  options: { local_seq: false, include_design: true },
  views: {
    kinds: { map: BY_KIND, reduce: '_sum' },
    figures: { map: BY_KIND, reduce: '_stats' },
    joined: { map: BY_KIND, reduce: JOIN },
    raw: { map: 'function (doc) { emit(doc.kind, doc.kind) }', options: { collation: 'raw' }, reduce: '_first' },
    repeated: {
      map: 'function (doc) { for (var i = 0; i < doc.n % 4; i++) emit(doc.kind, (7 * i) % 3) }',
      reduce: '_count',
    },
    plain: { map: 'function (doc) { emit(doc._rev, doc._conflicts || null) }' },
    distinct: { map: 'function (doc) { emit(doc.n, null) }', reduce: '_approx_count_distinct' },
    last: { map: 'function (doc) { emit(doc.n, doc._id) }', reduce: '_last' },
    // Longer than a key of the store.
    long: { map: 'function (doc) { emit(doc._id + doc.n + new Array(2000).join("x"), 1) }', reduce: '_count' },
    failing: { map: 'function (doc) { emit(1, 1); if (doc.n > 3) throw "no" }' },
  },
})

/** Some of them collate alike though they differ. */
const KINDS: readonly unknown[] = ['a', 'A', 'ä', 'a\u0308', '', 'a\0', null, 7, { b: 1 }, ['x']]

const IDS = ['a', 'b', 'c\0d', 'e"f', 'g\\', '_design/d', 'ü', ...Array.from({ length: 30 }, (_, i) => `n${i}`)]

const edit = fc.record({
  id: fc.nat({ max: IDS.length - 1 }),
  kind: fc.nat({ max: KINDS.length - 1 }),
  n: fc.nat({ max: 9 }),
  do: fc.constantFrom('put', 'put', 'put', 'delete', 'branch', 'purge'),
})

export type ModelEdit = typeof edit extends fc.Arbitrary<infer E> ? E : never

export const portions: fc.Arbitrary<ModelEdit[][]> = fc.array(fc.array(edit, { minLength: 1, maxLength: 40 }), {
  minLength: 1,
  maxLength: 6,
})

/** Tries so many cases, each on a database of its own. */
export async function checkModel({ databases, views }: TestViews<LocalFunctions>, numRuns: number): Promise<void> {
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
    { numRuns },
  )
}

export async function applyEdits(database: Database, edits: readonly ModelEdit[]): Promise<void> {
  for (const each of edits) {
    const id = IDS[each.id]!
    const leaf = await winnerOf(database, id)
    const members = { kind: KINDS[each.kind], n: each.n }
    if (each.do === 'purge') {
      if (leaf) await database.purge(new Map([[id, [leaf]]]))
    } else {
      const deleted = each.do === 'delete'
      if (deleted && !leaf) continue
      const branching = each.do === 'branch'
      await database.write([put(id, members, { parent: branching ? undefined : leaf, deleted, branching })])
    }
  }
}

export async function expectWhole(views: Views, database: Database, model: ViewDesign = MODEL_DESIGN): Promise<void> {
  using index = await views.openIndex(database, model, 'updated')
  for (const [name, { number, reduce }] of model.views) {
    const view = index.view(name)
    if (!view) throw new Error(`The index has no view ${name}.`)
    const expected = await naiveRows(database, model, name)
    expect(await rowsOf(view), name).toEqual(expected)
    expect(await view.ranks.total(view.snapshot), name).toBe(expected.length)
    expect(await view.ranks.check(view.snapshot), name).toEqual({ wrong: 0, extra: 0 })
    if (reduce === undefined) continue
    const source = model.maps[number]?.reduces[reduce] ?? ''
    expect(await reducedOf(view), name).toEqual(naiveReduction(source, expected))
  }
}

async function winnerOf(database: Database, id: string): Promise<RevisionId | undefined> {
  using view = database.view()
  const record = await view.record(id)
  return record && !record.deleted ? record.winner : undefined
}
