/** Forests of revisions against a model that knows a document as nothing but the list of its histories. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { Client, serverOfFile, type TestDatabase } from '../../support/client.ts'
import { startService } from '../../support/service.ts'

const client = serverOfFile()

/** One revision with its history, newest first. */
interface Revision {
  ids: string[]
  deleted: boolean
}

interface Leaf {
  _rev: string
  _deleted?: true
  _revisions: { start: number; ids: string[] }
}

/** Each revision is the child of an earlier one, or begins a tree. */
const forest: fc.Arbitrary<Revision[]> = fc
  .array(fc.record({ parent: fc.nat(), root: fc.boolean(), deleted: fc.boolean() }), { minLength: 1, maxLength: 12 })
  .map((picks) => {
    const revisions: Revision[] = []
    for (const [index, { parent, root, deleted }] of picks.entries()) {
      const before = root || index === 0 ? [] : revisions[parent % index]!.ids
      revisions.push({ ids: [`n${index}`, ...before], deleted })
    }
    return revisions
  })

function revOf({ ids }: Revision): string {
  return `${ids.length}-${ids[0]}`
}

function documentOf({ ids, deleted }: Revision): object {
  return { _id: 'd', _revisions: { start: ids.length, ids }, n: ids[0], ...(deleted ? { _deleted: true } : {}) }
}

function leavesOf(revisions: Revision[]): Revision[] {
  return revisions.filter((one) => !revisions.some(({ ids }) => ids.slice(1).includes(one.ids[0]!)))
}

/** Live before deleted, then the higher generation, then the higher id. */
function best(left: Revision, right: Revision): number {
  if (left.deleted !== right.deleted) return left.deleted ? 1 : -1
  if (left.ids.length !== right.ids.length) return right.ids.length - left.ids.length
  return Buffer.compare(Buffer.from(right.ids[0]!), Buffer.from(left.ids[0]!))
}

async function agrees(db: TestDatabase, leaves: Revision[]): Promise<void> {
  const items = (await db.get('d?open_revs=all&revs=true')).as<{ ok: Leaf }[]>()
  const found = items.map(({ ok }) => ({ ids: ok._revisions.ids, deleted: ok._deleted === true }))
  expect(found.sort(best)).toEqual([...leaves].sort(best))
  const [winner, ...others] = [...leaves].sort(best)
  const reply = await db.get('d?conflicts=true&deleted_conflicts=true')
  if (winner === undefined || winner.deleted) {
    expect([reply.status, reply.json]).toMatchObject([404, { reason: winner === undefined ? 'missing' : 'deleted' }])
  } else {
    const live = others.filter(({ deleted }) => !deleted).map(revOf)
    const dead = others.filter(({ deleted }) => deleted).map(revOf)
    expect(reply.json).toEqual({
      _id: 'd',
      _rev: revOf(winner),
      n: winner.ids[0],
      ...(live.length > 0 ? { _conflicts: live } : {}),
      ...(dead.length > 0 ? { _deleted_conflicts: dead } : {}),
    })
  }
  expect(await db.info()).toMatchObject({
    doc_count: winner?.deleted === false ? 1 : 0,
    doc_del_count: winner?.deleted === true ? 1 : 0,
  })
}

describe('revisions of one document', () => {
  const shuffled = forest.chain((all) =>
    fc.tuple(fc.constant(all), fc.shuffledSubarray(all, { minLength: all.length, maxLength: all.length })),
  )

  it('make the same document in any order, at once or one by one', async () => {
    await fc.assert(
      fc.asyncProperty(shuffled, async ([revisions, others]) => {
        const left = await client().database()
        await left.replicate(...revisions.map(documentOf))
        await agrees(left, leavesOf(revisions))
        const right = await client().database()
        for (const one of others) await right.replicate(documentOf(one))
        await agrees(right, leavesOf(revisions))
        expect((await right.get('d?meta=true')).text).toBe((await left.get('d?meta=true')).text)
      }),
      { numRuns: 40 },
    )
  })

  it('are removed when each of them is purged, leaf by leaf', async () => {
    await fc.assert(
      fc.asyncProperty(shuffled, async ([revisions]) => {
        const db = await client().database()
        await db.replicate(...revisions.map(documentOf))
        const leaves = leavesOf(revisions)
        while (leaves.length > 0) {
          const leaf = leaves.pop()!
          const { purged } = (await db.post('_purge', { d: [revOf(leaf)] })).as<{ purged: unknown }>()
          expect(purged).toEqual({ d: [revOf(leaf)] })
          await agrees(db, leaves)
        }
        // Nothing is known of them any more.
        const all = revisions.map(revOf)
        const { d } = (await db.post('_revs_diff', { d: all })).as<{ d: { missing: string[] } }>()
        expect([...d.missing].sort()).toEqual([...all].sort())
      }),
      { numRuns: 30 },
    )
  })

  it('are distinguished from those that are missing', async () => {
    await fc.assert(
      fc.asyncProperty(shuffled, fc.nat({ max: 12 }), async ([revisions, others], count) => {
        const db = await client().database()
        const sent = others.slice(0, count)
        await db.replicate(...sent.map(documentOf))
        const known = new Set(
          sent.flatMap(({ ids }) => ids.map((_, age) => revOf({ ids: ids.slice(age), deleted: false }))),
        )
        const missing = revisions.filter((one) => !known.has(revOf(one)))
        const reply = (await db.post('_revs_diff', { d: revisions.map(revOf) })).as<{
          d?: { missing: string[]; possible_ancestors?: string[] }
        }>()
        if (missing.length === 0) {
          expect(reply).toEqual({})
          return
        }
        const highest = Math.max(...missing.map(({ ids }) => ids.length))
        const ancestors = leavesOf(sent).filter(({ ids }) => ids.length < highest)
        expect([...(reply.d?.missing ?? [])].sort()).toEqual(missing.map(revOf).sort())
        expect([...(reply.d?.possible_ancestors ?? [])].sort()).toEqual(ancestors.map(revOf).sort())
        if (ancestors.length === 0) expect(reply.d).not.toHaveProperty('possible_ancestors')
      }),
      { numRuns: 40 },
    )
  })

  it.each([
    ['in memory', true],
    ['on disk', false],
  ])('are the same after compaction %s, but for the bodies of inner ones', async (_where, inMemory) => {
    const { url } = await startService({ inMemory })
    const own = new Client(url)
    await fc.assert(
      fc.asyncProperty(forest, async (revisions) => {
        const db = await own.database()
        await db.replicate(...revisions.map(documentOf))
        await db.compact()
        const leaves = leavesOf(revisions)
        await agrees(db, leaves)
        for (const one of revisions) {
          const reply = await db.get(`d?rev=${revOf(one)}`)
          expect(reply.status, revOf(one)).toBe(leaves.includes(one) ? 200 : 404)
        }
        expect((await db.post('_revs_diff', { d: revisions.map(revOf) })).text).toBe('{}\n')
      }),
      { numRuns: 15 },
    )
    own.close()
  })
})
