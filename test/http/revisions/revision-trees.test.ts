import { describe, expect, it } from 'vitest'
import { expectConflict, expectRefusal, serverOfFile, type TestDatabase } from '../../support/client.ts'

const client = serverOfFile()

interface Leaf {
  _rev: string
  _deleted?: true
  _conflicts?: string[]
  _deleted_conflicts?: string[]
  _revisions: { start: number; ids: string[] }
}

/** A revision with its history, newest first. */
function path(start: number, ids: string[], members: object = {}): object {
  return { _id: 'd', _revisions: { start, ids }, ...members }
}

async function leaves(db: TestDatabase): Promise<Leaf[]> {
  const items = (await db.get('d?open_revs=all&revs=true')).as<{ ok: Leaf }[]>()
  return items.map(({ ok }) => ok).sort((a, b) => (a._rev < b._rev ? -1 : 1))
}

async function leafRevisions(db: TestDatabase): Promise<string[]> {
  return (await leaves(db)).map(({ _rev }) => _rev)
}

async function winnerOf(db: TestDatabase): Promise<Leaf> {
  return (await db.get('d?conflicts=true&deleted_conflicts=true&revs=true')).as<Leaf>()
}

describe('the winner', () => {
  it.each([
    ['the higher generation', ['1-f', '2-a'], '2-a', ['1-f']],
    ['the higher id among equal generations', ['1-a', '1-c', '1-b'], '1-c', ['1-b', '1-a']],
    ['generations as numbers', ['9-f', '10-a'], '10-a', ['9-f']],
    ['ids as bytes', ['1-Z', '1-a', '1-ab'], '1-ab', ['1-a', '1-Z']],
    ['the id and not its length', ['1-b', '1-abcdef'], '1-b', ['1-abcdef']],
  ])('is %s', async (_what, revs, winner, conflicts) => {
    const db = await client().database()
    await db.replicate(...revs.map((_rev) => ({ _id: 'd', _rev })))
    expect(await winnerOf(db)).toMatchObject({ _rev: winner, _conflicts: conflicts })
    const other = await client().database()
    await other.replicate(...revs.toReversed().map((_rev) => ({ _id: 'd', _rev })))
    expect(await winnerOf(other)).toEqual(await winnerOf(db))
  })

  it('is a live leaf where there is one, however short its branch', async () => {
    const db = await client().database()
    await db.replicate({ _id: 'd', _rev: '1-a' }, { _id: 'd', _rev: '7-f', _deleted: true })
    expect(await winnerOf(db)).toMatchObject({ _rev: '1-a', _deleted_conflicts: ['7-f'] })
    expect(await db.info()).toMatchObject({ doc_count: 1, doc_del_count: 0 })
  })

  it('is the best tombstone when all are deleted', async () => {
    const db = await client().database()
    await db.replicate({ _id: 'd', _rev: '2-a', _deleted: true }, { _id: 'd', _rev: '1-z', _deleted: true })
    expectRefusal(await db.get('d'), 404, 'not_found', 'deleted')
    expect(await db.info()).toMatchObject({ doc_count: 0, doc_del_count: 1 })
    // Re-creation goes on from the one that wins.
    expect((await db.put('d', {})).rev).toMatch(/^3-/)
    expect(await leafRevisions(db)).toContain('1-z')
    expect(await leafRevisions(db)).not.toContain('2-a')
  })

  it('is what readers of all documents see', async () => {
    const db = await client().database()
    await db.replicate({ _id: 'd', _rev: '1-a', n: 1 }, { _id: 'd', _rev: '1-b', n: 2 })
    expect((await db.get('_all_docs?include_docs=true&conflicts=true')).json).toMatchObject({
      rows: [{ id: 'd', value: { rev: '1-b' }, doc: { _rev: '1-b', n: 2, _conflicts: ['1-a'] } }],
    })
  })
})

describe('a replicated revision', () => {
  it('begins a tree where its history begins', async () => {
    const db = await client().database()
    await db.replicate(path(5, ['e', 'd'], { n: 1 }))
    expect(await winnerOf(db)).toEqual({ _id: 'd', _rev: '5-e', n: 1, _revisions: { start: 5, ids: ['e', 'd'] } })
    expectRefusal(await db.get('d?rev=4-d'), 404, 'not_found', 'missing')
  })

  it('extends the revision that both know', async () => {
    const db = await client().database()
    await db.replicate(path(1, ['a'], { n: 1 }))
    await db.replicate(path(3, ['c', 'b', 'a'], { n: 3 }))
    expect(await winnerOf(db)).toEqual({ _id: 'd', _rev: '3-c', n: 3, _revisions: { start: 3, ids: ['c', 'b', 'a'] } })
    expect((await db.get('d?rev=1-a')).json).toMatchObject({ n: 1 })
    expectRefusal(await db.get('d?rev=2-b'), 404, 'not_found', 'missing')
  })

  it('branches off where the histories part', async () => {
    const db = await client().database()
    await db.replicate(path(3, ['c', 'b', 'a']))
    await db.replicate(path(3, ['y', 'x', 'a']))
    expect(await leaves(db)).toMatchObject([
      { _rev: '3-c', _revisions: { start: 3, ids: ['c', 'b', 'a'] } },
      { _rev: '3-y', _revisions: { start: 3, ids: ['y', 'x', 'a'] } },
    ])
  })

  it('is merged by a history that is shorter', async () => {
    const db = await client().database()
    await db.replicate(path(3, ['c', 'b', 'a']))
    await db.replicate(path(4, ['d', 'c']))
    expect(await leaves(db)).toMatchObject([{ _rev: '4-d', _revisions: { start: 4, ids: ['d', 'c', 'b', 'a'] } }])
  })

  it('is merged by a history that is longer', async () => {
    const db = await client().database()
    await db.replicate(path(3, ['c']))
    await db.replicate(path(4, ['d', 'c', 'b', 'a']))
    expect(await leaves(db)).toMatchObject([{ _rev: '4-d', _revisions: { start: 4, ids: ['d', 'c', 'b', 'a'] } }])
  })

  it('is a second tree where nothing is common', async () => {
    const db = await client().database()
    await db.replicate(path(2, ['b', 'a']))
    await db.replicate(path(2, ['y', 'x']))
    expect(await winnerOf(db)).toMatchObject({ _rev: '2-y', _conflicts: ['2-b'] })
  })

  it('does not share a node of another generation', async () => {
    const db = await client().database()
    await db.replicate(path(2, ['b', 'a']))
    await db.replicate(path(4, ['c', 'b']))
    expect(await leafRevisions(db)).toEqual(['2-b', '4-c'])
  })

  it('that is known changes nothing', async () => {
    const db = await client().database()
    await db.replicate(path(2, ['b', 'a'], { n: 1 }))
    const before = await db.state()
    await db.replicate(path(2, ['b', 'a'], { n: 2 }), { _id: 'd', _rev: '2-b', _deleted: true })
    expect(await db.state()).toEqual(before)
  })

  it('adds the body of a revision whose id only was known', async () => {
    const db = await client().database()
    await db.replicate(path(2, ['b', 'a'], { n: 2 }))
    await db.replicate(path(1, ['a'], { n: 1 }))
    expect((await db.get('d?rev=1-a')).json).toEqual({ _id: 'd', _rev: '1-a', n: 1 })
    expect(await winnerOf(db)).toMatchObject({ _rev: '2-b', n: 2 })
    expect(await leafRevisions(db)).toEqual(['2-b'])
    expect((await db.info()).update_seq).toBe(2)
  })

  it('of several in one request are merged in their order', async () => {
    const db = await client().database()
    await db.replicate(path(1, ['a']), path(2, ['b', 'a']), path(2, ['c', 'a']), path(3, ['e', 'b', 'a']))
    expect(await leafRevisions(db)).toEqual(['2-c', '3-e'])
    expect(await db.info()).toMatchObject({ doc_count: 1, update_seq: 1 })
  })

  it('may be a tombstone on a live document', async () => {
    const db = await client().database()
    const rev = await db.save('d', {})
    await db.replicate(path(2, ['dead', rev.slice(2)], { _deleted: true }))
    expectRefusal(await db.get('d'), 404, 'not_found', 'deleted')
    expect(await db.info()).toMatchObject({ doc_count: 0, doc_del_count: 1 })
  })

  it('can be extended, whatever its id', async () => {
    const db = await client().database()
    await db.replicate(path(7, ['any text at all']))
    const rev = await db.save('d', { _rev: '7-any text at all', n: 1 })
    expect(rev).toMatch(/^8-[0-9a-f]{32}$/)
    expect(await winnerOf(db)).toMatchObject({
      _rev: rev,
      _revisions: { start: 8, ids: [rev.slice(2), 'any text at all'] },
    })
  })
})

describe('_revs_limit', () => {
  async function edits(db: TestDatabase, count: number): Promise<string[]> {
    const revs = [await db.save('d', { n: 1 })]
    while (revs.length < count) revs.unshift(await db.save('d', { _rev: revs[0], n: revs.length + 1 }))
    return revs
  }

  it('cuts a branch to its newest revisions', async () => {
    const db = await client().database()
    await db.put('_revs_limit', '3')
    const revs = await edits(db, 6)
    const kept = revs.slice(0, 3)
    expect(await winnerOf(db)).toMatchObject({
      _rev: revs[0],
      _revisions: { start: 6, ids: kept.map((rev) => rev.slice(2)) },
    })
    expect((await db.get('d?revs_info=true')).json).toMatchObject({
      _revs_info: kept.map((rev) => ({ rev, status: 'available' })),
    })
    expect((await db.get(`d?rev=${revs[2]}`)).status).toBe(200)
    expectRefusal(await db.get(`d?rev=${revs[3]}`), 404, 'not_found', 'missing')
  })

  it('of 1 keeps the leaf alone', async () => {
    const db = await client().database()
    await db.put('_revs_limit', '1')
    const revs = await edits(db, 3)
    expect((await winnerOf(db))._revisions).toEqual({ start: 3, ids: [revs[0]?.slice(2)] })
    expectConflict(await db.put('d', { _rev: revs[1] }))
    expect(await db.save('d', { _rev: revs[0] })).toMatch(/^4-/)
  })

  it('cuts a replicated history', async () => {
    const db = await client().database()
    await db.put('_revs_limit', '2')
    await db.replicate(path(4, ['d', 'c', 'b', 'a']))
    expect((await winnerOf(db))._revisions).toEqual({ start: 4, ids: ['d', 'c'] })
  })

  it('keeps what one of the branches needs', async () => {
    const db = await client().database()
    await db.put('_revs_limit', '3')
    await db.replicate(path(2, ['b', 'a']), path(2, ['x', 'a']), path(4, ['d', 'c', 'b', 'a']))
    const [short, long] = await leaves(db)
    expect(short?._revisions).toEqual({ start: 2, ids: ['x', 'a'] })
    expect(long?._revisions.ids.slice(0, 3)).toEqual(['d', 'c', 'b'])
  })

  it('applies from the next write when it is lowered', async () => {
    const db = await client().database()
    const revs = await edits(db, 5)
    await db.put('_revs_limit', '2')
    expect((await winnerOf(db))._revisions.ids).toHaveLength(5)
    const rev = await db.save('d', { _rev: revs[0] })
    expect((await winnerOf(db))._revisions).toEqual({ start: 6, ids: [rev.slice(2), revs[0]?.slice(2)] })
  })

  it('applies at compaction too', async () => {
    const db = await client().database()
    const revs = await edits(db, 5)
    await db.put('_revs_limit', '2')
    await db.compact()
    expect((await winnerOf(db))._revisions).toEqual({ start: 5, ids: revs.slice(0, 2).map((rev) => rev.slice(2)) })
  })

  it('causes a conflict with a replica that is too far behind', async () => {
    const source = await client().database()
    const target = await client().database()
    await source.put('_revs_limit', '2')
    const old = await source.save('d', { n: 1 })
    await target.replicate((await source.get('d?revs=true')).json)
    let rev = old
    for (let n = 2; n <= 4; n++) rev = await source.save('d', { _rev: rev, n })
    await target.replicate((await source.get('d?revs=true')).json)
    expect(await winnerOf(target)).toMatchObject({ _rev: rev, _conflicts: [old] })
  })
})
