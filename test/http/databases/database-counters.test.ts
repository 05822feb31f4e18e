import { describe, expect, it } from 'vitest'
import { serverOfFile } from '../../support/client.ts'

const client = serverOfFile()

describe('the counters of a database', () => {
  it('count live documents, design documents too, and deleted ones apart', async () => {
    const db = await client().database()
    await db.save('a', {})
    const rev = await db.save('b', {})
    await db.save('_design/x', {})
    expect(await db.info()).toMatchObject({ doc_count: 3, doc_del_count: 0 })
    await db.remove('b', rev)
    expect(await db.info()).toMatchObject({ doc_count: 2, doc_del_count: 1 })
    await db.save('b', { again: true })
    expect(await db.info()).toMatchObject({ doc_count: 3, doc_del_count: 0 })
  })

  it('count a document as live as long as one branch is', async () => {
    const db = await client().database()
    await db.replicate({ _id: 'd', _rev: '1-aa' }, { _id: 'd', _rev: '1-bb' })
    expect(await db.info()).toMatchObject({ doc_count: 1, doc_del_count: 0 })
    await db.remove('d', '1-bb')
    expect(await db.info()).toMatchObject({ doc_count: 1, doc_del_count: 0 })
    await db.remove('d', '1-aa')
    expect(await db.info()).toMatchObject({ doc_count: 0, doc_del_count: 1 })
  })

  it('ignore local documents', async () => {
    const db = await client().database()
    await db.save('_local/x', {})
    await db.save('_local/x', { _rev: '0-1' })
    expect(await db.info()).toMatchObject({ doc_count: 0, doc_del_count: 0, update_seq: 0 })
  })
})

describe('update_seq', () => {
  it('grows by one with each write of a document', async () => {
    const db = await client().database()
    const first = await db.save('a', {})
    expect((await db.info()).update_seq).toBe(1)
    const second = await db.save('a', { _rev: first })
    expect((await db.info()).update_seq).toBe(2)
    await db.remove('a', second)
    expect((await db.info()).update_seq).toBe(3)
  })

  it('grows by the documents of a bulk request, not by their revisions', async () => {
    const db = await client().database()
    await db.post('_bulk_docs', { docs: [{ _id: 'a' }, { _id: 'b' }, { _id: 'c' }] })
    expect((await db.info()).update_seq).toBe(3)
  })

  it('stays when a write is refused', async () => {
    const db = await client().database()
    await db.save('a', {})
    await db.put('a', {})
    await db.put('_bad', {})
    await db.put('b', '{')
    await db.delete('nosuch?rev=1-x')
    expect((await db.info()).update_seq).toBe(1)
  })

  it('stays when a replicated revision is known', async () => {
    const db = await client().database()
    await db.replicate({ _id: 'd', _rev: '1-aa' })
    await db.replicate({ _id: 'd', _rev: '1-aa' })
    expect((await db.info()).update_seq).toBe(1)
  })

  it('grows by one with each change of the security object and of the revision limit', async () => {
    const db = await client().database()
    await db.put('_security', { admins: { names: [], roles: [] } })
    expect((await db.info()).update_seq).toBe(1)
    await db.put('_revs_limit', '10')
    expect((await db.info()).update_seq).toBe(2)
  })

  it('grows by one with a purge, and by one more for each document that is left with something', async () => {
    const db = await client().database()
    await db.replicate({ _id: 'whole', _rev: '1-aa' }, { _id: 'part', _rev: '1-aa' }, { _id: 'part', _rev: '1-bb' })
    const before = (await db.info()).update_seq
    await db.post('_purge', { whole: ['1-aa'] })
    expect((await db.info()).update_seq).toBe(before + 1)
    await db.post('_purge', { part: ['1-bb'] })
    expect((await db.info()).update_seq).toBe(before + 3)
    await db.post('_purge', {})
    expect((await db.info()).update_seq).toBe(before + 4)
  })
})
