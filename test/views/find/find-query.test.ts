import { expect, it } from 'vitest'
import { planFind } from '../../../src/views/find/find-plan.ts'
import { FindQuery } from '../../../src/views/find/find-query.ts'
import { readFindRequest } from '../../../src/views/find/find-request.ts'
import { put } from '../../database/test-database.ts'
import { lmdbViews } from '../test-views.ts'

/** A query that reads all documents in several pages, and finds none. */
async function vainQuery(client?: { readonly signal: AbortSignal }) {
  const { databases, views } = await lmdbViews()
  await databases.create('db')
  const database = await databases.get('db')
  await database.write(Array.from({ length: 1200 }, (_, n) => put(`${n}`, { n })))
  const request = readFindRequest({ selector: { n: -1 } }, { limit: 25, partition: undefined, isPartitioned: false })
  return { databases, query: await FindQuery.open(database, views, await planFind(database, request), client) }
}

it('a query reads on until it has read everything', async () => {
  const { query } = await vainQuery()
  expect(await Array.fromAsync(query.results())).toEqual([])
  expect(query.figures.documentsExamined).toBe(1200)
  query.release()
})

it('a query ends when its database is deleted', async () => {
  const { databases, query } = await vainQuery()
  const deleting = databases.delete('db')
  await expect(Array.fromAsync(query.results())).rejects.toMatchObject({ kind: 'not found' })
  expect(query.figures.documentsExamined).toBeLessThan(1200)
  query.release()
  await deleting
})

it('a query ends when its client is gone', async () => {
  const { query } = await vainQuery({ signal: AbortSignal.abort(new Error('gone')) })
  await expect(Array.fromAsync(query.results())).rejects.toThrow('gone')
  expect(query.figures.documentsExamined).toBeLessThan(1200)
  query.release()
})
