import { createHash } from 'node:crypto'
import { expect, it } from 'vitest'
import { serverOfFile } from '../../support/client.ts'

const client = serverOfFile()

/** In quadratic time this many would take minutes. */
const LEAVES = 10_000

const hash = (number: number) => createHash('md5').update(String(number)).digest('hex')

it.each([
  ['each a root of its own', (i: number) => ({ start: 1, ids: [hash(i)] })],
  ['all with one parent', (i: number) => ({ start: 2, ids: [hash(i), hash(-1)] })],
])('thousands of conflicts of one document, %s, are written, read and purged in bounded time', async (_, path) => {
  const database = await client().database()
  const docs = Array.from({ length: LEAVES }, (_, i) => ({ _id: 'a', _revisions: path(i), i }))
  expect((await database.post('_bulk_docs', { new_edits: false, docs })).status).toBe(201)
  const revs = docs.map(({ _revisions: { start, ids } }) => `${start}-${ids[0]}`)
  const best = revs.toSorted().at(-1)
  const winner = (await database.get('a?conflicts=true')).as<{ _rev: string; _conflicts: string[] }>()
  expect(winner._rev).toBe(best)
  expect(winner._conflicts.toSorted()).toEqual(revs.filter((rev) => rev !== best).toSorted())
  expect((await database.post('_revs_diff', { a: revs })).json).toEqual({})
  const all = await database.get('a?open_revs=all&latest=true')
  expect(all.as<unknown[]>()).toHaveLength(LEAVES)

  const losers = revs.filter((rev) => rev !== best)
  const deletions = losers.map((_rev) => ({ _id: 'a', _rev, _deleted: true }))
  const deleted = (await database.post('_bulk_docs', { docs: deletions })).as<{ ok?: boolean }[]>()
  expect(deleted.filter(({ ok }) => ok)).toHaveLength(losers.length)
  expect((await database.get('a?conflicts=true')).as<object>()).not.toHaveProperty('_conflicts')

  const { purged } = (await database.post('_purge', { a: [best] })).as<{ purged: { a: string[] } }>()
  expect(purged.a).toEqual([best])
  expect((await database.get('a')).status).toBe(404)
})
