import { describe, expect, it } from 'vitest'
import type { Database } from '../../src/database/database.ts'
import type { Views } from '../../src/views/views.ts'
import { put } from '../database/test-database.ts'
import { design, lmdbViews } from './test-views.ts'

const MANY = design({
  views: { n: { map: 'function (doc) { for (var i = 0; i < doc.rows; i++) emit([doc.n, i], null) }' } },
})

describe('documents that emit very much', () => {
  it('are indexed in smaller portions, and one by one if need be', async () => {
    const { databases, views, functions } = await lmdbViews()
    await databases.create('db')
    const database = await databases.get('db')
    await database.write([put('none', { rows: 0 })])
    expect(await count(views, database)).toBe(0)
    await database.write(Array.from({ length: 18 }, (_, n) => put(`many${n}`, { n, rows: 5000 })))
    expect(await count(views, database)).toBe(90_000)
    expect(functions.counts.mapped, 'the first try was too much').toBeGreaterThan(30)
    await database.write([put('most', { n: 'most', rows: 90_000 })])
    expect(await count(views, database)).toBe(180_000)
  })
})

async function count(views: Views, database: Database): Promise<number> {
  using index = await views.openIndex(database, MANY, 'updated')
  const view = index.view('n')
  return view ? await view.ranks.total(view.snapshot) : 0
}
