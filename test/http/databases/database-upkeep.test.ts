import { describe, expect, it } from 'vitest'
import { Client, expectRefusal, serverOfFile, TestDatabase } from '../../support/client.ts'
import { EMPTY } from '../../support/first-revisions.ts'
import { startService } from '../../support/service.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const client = serverOfFile()

describe('_revs_limit', () => {
  it('is 1000 until it is set', async () => {
    const db = await client().database()
    const reply = await db.get('_revs_limit')
    expect([reply.status, reply.text]).toEqual([200, '1000\n'])
    const set = await db.put('_revs_limit', '5')
    expect([set.status, set.text]).toEqual([200, '{"ok":true}\n'])
    expect((await db.get('_revs_limit')).text).toBe('5\n')
  })

  it('needs no Content-Type', async () => {
    const db = await client().database()
    expect((await db.put('_revs_limit', '5', { 'Content-Type': undefined })).status).toBe(200)
  })

  it.each(['"5"', '1.5', 'null', '[5]', '{}', 'true'])('refuses %s', async (body) => {
    const db = await client().database()
    expectRefusal(await db.put('_revs_limit', body), 400, 'bad_request', 'Rev limit has to be an integer')
    expect((await db.get('_revs_limit')).text).toBe('1000\n')
  })

  it.each(['0', '-1', '-1000'])('refuses %s', async (body) => {
    const db = await client().database()
    const reply = await db.put('_revs_limit', body)
    expect([reply.status, reply.as<{ error: string }>().error]).toEqual([400, 'bad_request'])
    expect((await db.get('_revs_limit')).text).toBe('1000\n')
    expect((await db.info()).update_seq).toBe(0)
  })

  it.each(['', 'x', '5 5', '05'])('refuses %j', async (body) => {
    const db = await client().database()
    expectRefusal(await db.put('_revs_limit', body), 400, 'bad_request', 'invalid_json')
  })
})

describe('_ensure_full_commit', () => {
  it('returns the start time of the database', async () => {
    const db = await client().database()
    await db.save('doc', {})
    const { instance_start_time } = await db.info()
    const reply = await db.post('_ensure_full_commit', '')
    expect([reply.status, reply.text]).toEqual([201, `{"ok":true,"instance_start_time":"${instance_start_time}"}\n`])
  })

  it('accepts a sequence that is reached', async () => {
    const db = await client().database()
    await db.save('doc', {})
    for (const seq of [0, 1]) expect((await db.post(`_ensure_full_commit?seq=${seq}`, '')).status).toBe(201)
    const reason = "can't do a full commit ahead of current update_seq"
    expectRefusal(await db.post('_ensure_full_commit?seq=2', ''), 400, 'bad_request', reason)
  })

  it('ignores its body', async () => {
    const db = await client().database()
    expect((await db.post('_ensure_full_commit', '{no json')).status).toBe(201)
  })

  it.each([undefined, 'text/plain'])('refuses the type %s', async (type) => {
    const db = await client().database()
    const reply = await db.post('_ensure_full_commit', '', { 'Content-Type': type })
    expectRefusal(reply, 415, 'bad_content_type', 'Content-Type must be application/json')
  })
})

describe.each([
  ['in memory', true],
  ['on disk', false],
])('_compact %s', (_where, inMemory) => {
  async function database(): Promise<TestDatabase> {
    const dir = inMemory ? {} : { dir: await temporaryFolder() }
    return new Client((await startService({ inMemory, ...dir })).url).database()
  }

  it('is accepted and done in the background', async () => {
    const db = await database()
    const reply = await db.post('_compact', '')
    expect([reply.status, reply.text]).toEqual([202, '{"ok":true}\n'])
    expect((await db.post('_compact', '')).status).toBe(202)
    await expect.poll(async () => (await db.info()).compact_running).toBe(false)
  })

  it('forgets the bodies of inner revisions and keeps those of leaves', async () => {
    const db = await database()
    const first = await db.save('doc', { n: 1 })
    const second = await db.save('doc', { _rev: first, n: 2 })
    const { live, tombstone } = await db.saveAndRemove('gone', { n: 3 })
    await db.replicate({ _id: 'torn', _rev: '1-a', n: 'a' }, { _id: 'torn', _rev: '1-b', n: 'b' })
    await db.compact()
    expect((await db.get('doc')).json).toEqual({ _id: 'doc', _rev: second, n: 2 })
    expectRefusal(await db.get(`doc?rev=${first}`), 404, 'not_found', 'missing')
    expect((await db.get('doc?revs_info=true')).json).toMatchObject({
      _revs_info: [
        { rev: second, status: 'available' },
        { rev: first, status: 'missing' },
      ],
    })
    expect((await db.get(`doc?open_revs=${encodeURIComponent(JSON.stringify([first]))}`)).json).toEqual([
      { missing: first },
    ])
    expectRefusal(await db.get(`gone?rev=${live}`), 404, 'not_found', 'missing')
    expect((await db.get(`gone?rev=${tombstone}`)).json).toMatchObject({ _deleted: true })
    expect((await db.get('torn?rev=1-a')).json).toMatchObject({ n: 'a' })
    expect((await db.get('torn?conflicts=true')).json).toMatchObject({ _rev: '1-b', _conflicts: ['1-a'] })
    // The history is still known.
    expect((await db.post('_revs_diff', { doc: [first, second] })).text).toBe('{}\n')
  })

  it('leaves all else as it was', async () => {
    const db = await database()
    const rev = await db.save('a', {})
    await db.save('a', { _rev: rev, n: 1 })
    await db.saveAndRemove('b', {})
    await db.save('purged', {})
    await db.post('_purge', { purged: [EMPTY] })
    await db.put('_revs_limit', '50')
    await db.put('_security', { note: 1 })
    await db.save('_local/x', { n: 2 })
    const before = await db.state()
    const { instance_start_time } = await db.info()
    await db.compact()
    expect(await db.state()).toEqual(before)
    expect((await db.info()).instance_start_time).toBe(instance_start_time)
    expect((await db.get('_revs_limit')).text).toBe('50\n')
    expect((await db.get('_security')).json).toEqual({ note: 1 })
    expect((await db.get('_local/x')).json).toMatchObject({ n: 2 })
  })

  it('does not lose what is written meanwhile', async () => {
    const db = await database()
    const docs = Array.from({ length: 2_000 }, (_, n) => ({ _id: `old-${n}`, text: 'x'.repeat(200) }))
    await db.post('_bulk_docs', { docs })
    await db.post('_compact', '')
    await Promise.all(Array.from({ length: 100 }, (_, n) => db.save(`new-${n}`, { n })))
    await db.compact()
    expect(await db.info()).toMatchObject({ doc_count: 2_100, update_seq: 2_100 })
    for (const n of [0, 50, 99]) expect((await db.get(`new-${n}`)).json).toMatchObject({ n })
    expect((await db.get('old-1999')).status).toBe(200)
  })

  it('lets a forgotten body come back by replication', async () => {
    const db = await database()
    const first = await db.save('doc', { n: 1 })
    await db.save('doc', { _rev: first, n: 2 })
    await db.compact()
    const before = (await db.info()).update_seq
    await db.replicate({ _id: 'doc', _rev: first, n: 1 })
    expect((await db.get(`doc?rev=${first}`)).json).toMatchObject({ n: 1 })
    expect((await db.info()).update_seq).toBe(before + 1)
  })
})

describe('_compact', () => {
  it.each([undefined, 'text/plain'])('refuses the type %s', async (type) => {
    const db = await client().database()
    const reply = await db.post('_compact', '', { 'Content-Type': type })
    expectRefusal(reply, 415, 'bad_content_type', 'Content-Type must be application/json')
  })

  it('on disk frees space and is kept over a restart', async () => {
    const dir = await temporaryFolder()
    const first = await startService({ dir })
    const before = await new Client(first.url).database()
    let rev = await before.save('doc', { text: 'x'.repeat(50_000) })
    for (let n = 0; n < 40; n++) rev = await before.save('doc', { _rev: rev, n, text: 'x'.repeat(50_000) })
    const { disk_size } = await before.info()
    await before.compact()
    expect((await before.info()).disk_size).toBeLessThan(disk_size)
    const state = await before.state()
    before.client.close()
    await first.close()
    const second = await startService({ dir })
    const after = new TestDatabase(new Client(second.url), before.name)
    expect(await after.state()).toEqual(state)
    expect((await after.get('doc')).json).toMatchObject({ _rev: rev, n: 39 })
    after.client.close()
  })
})
