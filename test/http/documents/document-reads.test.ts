import { describe, expect, it } from 'vitest'
import { expectRefusal, serverOfFile, type TestDatabase } from '../../support/client.ts'

const client = serverOfFile()

interface Stored {
  _id: string
  _rev: string
  _revisions?: { start: number; ids: string[] }
  _revs_info?: { rev: string; status: string }[]
  _conflicts?: string[]
  _deleted_conflicts?: string[]
  _local_seq?: number
}

/** A document with three live leaves and two deleted ones: `2-c` wins, then `2-b`, `1-z`; `3-e` and `2-d` are deleted. */
async function conflicted(db: TestDatabase): Promise<void> {
  const branch = (start: number, ...ids: string[]) => ({ _id: 'd', _revisions: { start, ids } })
  await db.replicate(
    { ...branch(2, 'b', 'a'), n: 'b' },
    { ...branch(2, 'c', 'a'), n: 'c' },
    { ...branch(1, 'z'), n: 'z' },
    { ...branch(2, 'd', 'a'), _deleted: true },
    { ...branch(3, 'e', 'dd', 'a'), _deleted: true },
  )
}

describe('GET of a document', () => {
  it('has its revision for ETag', async () => {
    const db = await client().database()
    const rev = await db.save('doc', { a: 1 })
    const reply = await db.get('doc')
    expect([reply.status, reply.headers.etag]).toEqual([200, `"${rev}"`])
    expect(reply.headers['cache-control']).toBe('must-revalidate')
    expect(reply.headers['content-length']).toBe(String(reply.body.length))
    expect(reply.text).toBe(`{"_id":"doc","_rev":"${rev}","a":1}\n`)
  })

  it('is the same for a large one, with further options', async () => {
    const db = await client().database()
    const text = 'ü'.repeat(3_000_000)
    const rev = await db.save(encodeURIComponent('läßt'), { a: text, _attachments: { f: { data: '' } } })
    const reply = await db.get(`${encodeURIComponent('läßt')}?revs=true`)
    expect(reply.headers['content-length']).toBe(String(reply.body.length))
    expect(reply.text.startsWith(`{"_id":"läßt","_rev":"${rev}","a":"ü`)).toBe(true)
    expect(reply.text.endsWith('}\n')).toBe(true)
    const { a, ...others } = reply.as<Record<string, unknown>>()
    expect(a === text).toBe(true)
    expect(Object.keys(others)).toEqual(['_id', '_rev', '_revisions', '_attachments'])
    expect((await db.request('HEAD', encodeURIComponent('läßt'))).headers['content-length']).toBe(
      (await db.get(encodeURIComponent('läßt'))).headers['content-length'],
    )
  })

  it('distinguishes missing from deleted', async () => {
    const db = await client().database()
    expectRefusal(await db.get('doc'), 404, 'not_found', 'missing')
    await db.saveAndRemove('doc', {})
    expectRefusal(await db.get('doc'), 404, 'not_found', 'deleted')
  })

  it.each(['_odd', '_nosuch', '%FF'])('answers 404 to /%s', async (path) => {
    const db = await client().database()
    expectRefusal(await db.get(path), 404, 'not_found', 'missing')
  })

  it('answers 304 to a client that has the revision', async () => {
    const db = await client().database()
    const rev = await db.save('doc', { a: 1 })
    for (const tag of [`"${rev}"`, `"x", "${rev}"`, `"x" "${rev}"`, `"x","${rev}","y"`]) {
      const reply = await db.get('doc', { 'If-None-Match': tag })
      expect([reply.status, reply.text, reply.headers.etag]).toEqual([304, '', `"${rev}"`])
    }
    expect((await db.head('doc', { 'If-None-Match': `"${rev}"` })).status).toBe(304)
    for (const tag of ['*', `W/"${rev}"`, rev, '"1-x"', '']) {
      expect((await db.get('doc', { 'If-None-Match': tag })).status).toBe(200)
    }
    const next = await db.save('doc', { _rev: rev })
    expect((await db.get('doc', { 'If-None-Match': `"${rev}"` })).status).toBe(200)
    expect((await db.get('doc', { 'If-None-Match': `"${next}"` })).status).toBe(304)
  })

  it('returns an older revision when requested', async () => {
    const db = await client().database()
    const first = await db.save('doc', { n: 1 })
    const second = await db.save('doc', { _rev: first, n: 2 })
    const reply = await db.get(`doc?rev=${first}`)
    expect(reply.text).toBe(`{"_id":"doc","_rev":"${first}","n":1}\n`)
    expect(reply.headers.etag).toBe(`"${first}"`)
    expect((await db.get(`doc?rev=${second}`)).json).toMatchObject({ n: 2 })
    expect((await db.get(`doc?rev=${first}`, { 'If-None-Match': `"${first}"` })).status).toBe(304)
    expect((await db.get(`doc?rev=${first.toUpperCase()}`)).json).toMatchObject({ n: 1 })
  })

  it('answers 404 for an unknown revision', async () => {
    const db = await client().database()
    const rev = await db.save('doc', {})
    for (const asked of ['1-abc', '2-967a00dff5e02add41819138abb3284d', `9${rev}`]) {
      expectRefusal(await db.get(`doc?rev=${asked}`), 404, 'not_found', 'missing')
    }
    expectRefusal(await db.get(`nosuch?rev=${rev}`), 404, 'not_found', 'missing')
  })

  it.each(['abc', '', '1', 'x-y', `1-${'z'.repeat(32)}`])('refuses %j for a revision', async (rev) => {
    const db = await client().database()
    await db.save('doc', {})
    expectRefusal(await db.get(`doc?rev=${rev}`), 400, 'bad_request', 'Invalid rev format')
  })

  it('returns a tombstone only by its revision', async () => {
    const db = await client().database()
    const { live, tombstone } = await db.saveAndRemove('doc', { a: 1 })
    const reply = await db.get(`doc?rev=${tombstone}`)
    expect([reply.status, reply.text]).toEqual([200, `{"_id":"doc","_rev":"${tombstone}","_deleted":true}\n`])
    expect((await db.get(`doc?rev=${live}`)).json).toMatchObject({ a: 1 })
  })

  it('ignores parameters that it does not know', async () => {
    const db = await client().database()
    await db.save('doc', {})
    expect((await db.get('doc?nosuch=1&r=2&w=3&conflicts=maybe&revs=1')).text).toBe((await db.get('doc')).text)
  })
})

describe('HEAD of a document', () => {
  it('has the head of GET and no body', async () => {
    const db = await client().database()
    const first = await db.save('doc', { n: 1, text: 'é' })
    await db.save('doc', { _rev: first, n: 22 })
    for (const query of ['', `?rev=${first}`, '?revs=true', '?revs_info=true&conflicts=true']) {
      const whole = await db.get(`doc${query}`)
      const head = await db.head(`doc${query}`)
      expect([head.status, head.text]).toEqual([200, ''])
      expect(head.headers.etag).toBe(whole.headers.etag)
      expect(head.headers['content-length']).toBe(String(whole.body.length))
      expect(head.headers['content-type']).toBe(whole.headers['content-type'])
    }
  })

  it('answers 404 where GET does', async () => {
    const db = await client().database()
    await db.saveAndRemove('gone', {})
    for (const id of ['nosuch', 'gone']) {
      const head = await db.head(id)
      expect([head.status, head.text]).toEqual([404, ''])
      expect(head.headers['content-length']).toBe(String((await db.get(id)).body.length))
    }
  })
})

describe('the options of GET', () => {
  it('revs=true: the path of the revision, and the ETag stays', async () => {
    const db = await client().database()
    const first = await db.save('doc', { n: 1 })
    const second = await db.save('doc', { _rev: first, n: 2 })
    const hashes = [second.slice(2), first.slice(2)]
    const reply = await db.get('doc?revs=true')
    expect(reply.text).toBe(
      `{"_id":"doc","_rev":"${second}","n":2,"_revisions":{"start":2,"ids":["${hashes[0]}","${hashes[1]}"]}}\n`,
    )
    expect(reply.headers.etag).toBe(`"${second}"`)
    expect((await db.get(`doc?revs=true&rev=${first}`)).json).toMatchObject({
      _revisions: { start: 1, ids: [hashes[1]] },
    })
  })

  it('revs_info=true: what is left of each revision of the path', async () => {
    const db = await client().database()
    const { live, tombstone } = await db.saveAndRemove('doc', { n: 1 })
    const again = await db.save('doc', { n: 3 })
    const reply = await db.get('doc?revs_info=true')
    expect(reply.text).toBe(
      `{"_id":"doc","_rev":"${again}","n":3,"_revs_info":[{"rev":"${again}","status":"available"},` +
        `{"rev":"${tombstone}","status":"deleted"},{"rev":"${live}","status":"available"}]}\n`,
    )
    expect(reply.headers.etag).toBeUndefined()
  })

  it('revs_info=true: missing where only the id of a revision is known', async () => {
    const db = await client().database()
    await db.replicate({ _id: 'doc', _revisions: { start: 3, ids: ['c', 'b', 'a'] } })
    expect((await db.get('doc?revs_info=true')).as<Stored>()._revs_info).toEqual([
      { rev: '3-c', status: 'available' },
      { rev: '2-b', status: 'missing' },
      { rev: '1-a', status: 'missing' },
    ])
  })

  it('conflicts=true: the live leaves that do not win, best first', async () => {
    const db = await client().database()
    await conflicted(db)
    const reply = await db.get('d?conflicts=true')
    expect(reply.text).toBe('{"_id":"d","_rev":"2-c","n":"c","_conflicts":["2-b","1-z"]}\n')
    expect(reply.headers.etag).toBeUndefined()
  })

  it('deleted_conflicts=true: the deleted leaves', async () => {
    const db = await client().database()
    await conflicted(db)
    const reply = await db.get('d?deleted_conflicts=true')
    expect(reply.text).toBe('{"_id":"d","_rev":"2-c","n":"c","_deleted_conflicts":["3-e","2-d"]}\n')
    expect(reply.headers.etag).toBeUndefined()
  })

  it('nothing where there is no conflict, and still no ETag', async () => {
    const db = await client().database()
    const rev = await db.save('doc', {})
    for (const flag of ['conflicts', 'deleted_conflicts', 'meta', 'revs_info', 'local_seq']) {
      const reply = await db.get(`doc?${flag}=true`, { 'If-None-Match': `"${rev}"` })
      expect([reply.status, reply.headers.etag]).toEqual([200, undefined])
      expect(reply.as<Stored>()).not.toHaveProperty('_conflicts')
      expect(reply.as<Stored>()).not.toHaveProperty('_deleted_conflicts')
    }
  })

  it('local_seq=true: the sequence of the last change', async () => {
    const db = await client().database()
    await db.save('other', {})
    const rev = await db.save('doc', { n: 1 })
    await db.save('third', {})
    expect((await db.get('doc?local_seq=true')).text).toBe(`{"_id":"doc","_rev":"${rev}","n":1,"_local_seq":2}\n`)
    await db.save('doc', { _rev: rev })
    expect((await db.get('doc?local_seq=true')).as<Stored>()._local_seq).toBe(4)
  })

  it('meta=true: conflicts, deleted conflicts and the revisions', async () => {
    const db = await client().database()
    await conflicted(db)
    const reply = await db.get('d?meta=true')
    expect(reply.text).toBe(
      '{"_id":"d","_rev":"2-c","n":"c","_revs_info":[{"rev":"2-c","status":"available"},{"rev":"1-a","status":"missing"}],' +
        '"_conflicts":["2-b","1-z"],"_deleted_conflicts":["3-e","2-d"]}\n',
    )
    expect(reply.headers.etag).toBeUndefined()
  })

  it('all of it together, in one order', async () => {
    const db = await client().database()
    await conflicted(db)
    const reply = await db.get('d?local_seq=true&deleted_conflicts=true&conflicts=true&revs_info=true&revs=true')
    expect(Object.keys(reply.as<Stored>())).toEqual([
      '_id',
      '_rev',
      'n',
      '_revisions',
      '_revs_info',
      '_conflicts',
      '_deleted_conflicts',
      '_local_seq',
    ])
  })

  it('nothing but revs together with a revision', async () => {
    const db = await client().database()
    await conflicted(db)
    const flags = 'conflicts=true&deleted_conflicts=true&revs_info=true&local_seq=true'
    expect((await db.get(`d?rev=2-b&${flags}`)).text).toBe('{"_id":"d","_rev":"2-b","n":"b"}\n')
    expect((await db.get('d?rev=2-b&revs=true')).json).toMatchObject({ _revisions: { start: 2, ids: ['b', 'a'] } })
  })

  it('has _deleted after the members of a tombstone', async () => {
    const db = await client().database()
    const rev = await db.save('doc', {})
    const tombstone = (await db.put('doc', { _rev: rev, why: 'x', _deleted: true })).rev
    expect((await db.get(`doc?rev=${tombstone}&revs=true`)).text).toBe(
      `{"_id":"doc","_rev":"${tombstone}","why":"x","_deleted":true,` +
        `"_revisions":{"start":2,"ids":["${tombstone.slice(2)}","${rev.slice(2)}"]}}\n`,
    )
  })

  it.each(['true', 'TRUE', 'True'])('is switched on by %s', async (word) => {
    const db = await client().database()
    await conflicted(db)
    expect((await db.get(`d?conflicts=${word}`)).as<Stored>()._conflicts).toEqual(['2-b', '1-z'])
  })

  it.each(['false', '1', '', 'yes'])('is not switched on by %j', async (word) => {
    const db = await client().database()
    await conflicted(db)
    const reply = await db.get(`d?conflicts=${word}&revs=${word}&meta=${word}`)
    expect(reply.text).toBe('{"_id":"d","_rev":"2-c","n":"c"}\n')
  })

  it('uses the last of repeated parameters', async () => {
    const db = await client().database()
    await conflicted(db)
    expect((await db.get('d?rev=2-b&rev=1-z')).json).toMatchObject({ _rev: '1-z' })
    expect((await db.get('d?conflicts=true&conflicts=false')).as<Stored>()).not.toHaveProperty('_conflicts')
  })
})

describe('latest=true', () => {
  it('returns the leaf that descends from the requested revision', async () => {
    const db = await client().database()
    const first = await db.save('doc', { n: 1 })
    const second = await db.save('doc', { _rev: first, n: 2 })
    expect((await db.get(`doc?rev=${first}&latest=true`)).json).toMatchObject({ _rev: second, n: 2 })
    expect((await db.get(`doc?rev=${second}&latest=true`)).json).toMatchObject({ _rev: second })
    expect((await db.get('doc?latest=true')).json).toMatchObject({ _rev: second })
    expectRefusal(await db.get('doc?rev=1-abc&latest=true'), 404, 'not_found', 'missing')
  })

  it('returns the best of several leaves', async () => {
    const db = await client().database()
    await conflicted(db)
    expect((await db.get('d?rev=1-a&latest=true')).json).toMatchObject({ _rev: '2-c' })
    expect((await db.get('d?rev=1-z&latest=true')).json).toMatchObject({ _rev: '1-z' })
  })
})

describe('open_revs', () => {
  interface Item {
    ok?: Stored & { _deleted?: true }
    missing?: string
  }

  function revisionsIn(items: Item[]): string[] {
    return items.map(({ ok, missing }) => ok?._rev ?? `missing ${missing}`)
  }

  it('=all returns every leaf, deleted ones too', async () => {
    const db = await client().database()
    await conflicted(db)
    const reply = await db.get('d?open_revs=all', { Accept: 'application/json' })
    expect([reply.status, reply.headers['content-type']]).toEqual([200, 'application/json'])
    expect(reply.headers['transfer-encoding']).toBe('chunked')
    expect(reply.headers.etag).toBeUndefined()
    const items = reply.as<Item[]>()
    expect(revisionsIn(items).sort()).toEqual(['1-z', '2-b', '2-c', '2-d', '3-e'])
    expect(items.find(({ ok }) => ok?._rev === '2-d')?.ok).toEqual({ _id: 'd', _rev: '2-d', _deleted: true })
  })

  it('is JSON to clients that do not name multipart', async () => {
    const db = await client().database()
    const rev = await db.save('doc', { n: 1 })
    for (const headers of [{}, { Accept: '*/*' }]) {
      const reply = await db.get('doc?open_revs=all', headers)
      expect(reply.headers['content-type']).toBe('text/plain;charset=utf-8')
      expect(reply.text).toBe(`[{"ok":{"_id":"doc","_rev":"${rev}","n":1}}]\n`)
    }
  })

  it('=[…] returns the existing ones, then the missing ones', async () => {
    const db = await client().database()
    const first = await db.save('doc', { n: 1 })
    const second = await db.save('doc', { _rev: first, n: 2 })
    const query = encodeURIComponent(JSON.stringify(['9-x', second]))
    expect((await db.get(`doc?open_revs=${query}`)).text).toBe(
      `[{"ok":{"_id":"doc","_rev":"${second}","n":2}},{"missing":"9-x"}]\n`,
    )
    const both = encodeURIComponent(JSON.stringify([first, second]))
    expect(revisionsIn((await db.get(`doc?open_revs=${both}`)).as<Item[]>()).sort()).toEqual([first, second].sort())
  })

  it('reports a revision as missing when its body was never stored', async () => {
    const db = await client().database()
    await db.replicate({ _id: 'doc', _revisions: { start: 2, ids: ['b', 'a'] } })
    expect((await db.get(`doc?open_revs=${encodeURIComponent('["1-a"]')}`)).text).toBe('[{"missing":"1-a"}]\n')
  })

  it('never answers 404', async () => {
    const db = await client().database()
    expect((await db.get('nosuch?open_revs=all')).text).toBe('[]\n')
    const reply = await db.get(`nosuch?open_revs=${encodeURIComponent('["1-a","2-b"]')}`)
    expect([reply.status, reply.text]).toEqual([200, '[{"missing":"1-a"},{"missing":"2-b"}]\n'])
    const { tombstone } = await db.saveAndRemove('gone', {})
    expect((await db.get('gone?open_revs=all')).json).toEqual([
      { ok: { _id: 'gone', _rev: tombstone, _deleted: true } },
    ])
  })

  it('=[] counts as not given', async () => {
    const db = await client().database()
    await db.save('doc', {})
    expect((await db.get('doc?open_revs=[]')).text).toBe((await db.get('doc')).text)
    expectRefusal(await db.get('nosuch?open_revs=[]'), 404, 'not_found', 'missing')
  })

  it('honours revs and latest', async () => {
    const db = await client().database()
    await conflicted(db)
    const asked = encodeURIComponent('["1-a"]')
    const leaves = (await db.get(`d?open_revs=${asked}&latest=true&revs=true`)).as<Item[]>()
    expect(revisionsIn(leaves).sort()).toEqual(['2-b', '2-c', '2-d', '3-e'])
    for (const { ok } of leaves) expect(ok?._revisions?.ids.at(-1)).toBe('a')
    const twice = encodeURIComponent('["1-a","2-b"]')
    const once = (await db.get(`d?open_revs=${twice}&latest=true`)).as<Item[]>()
    expect(revisionsIn(once).sort()).toEqual(['2-b', '2-c', '2-d', '3-e'])
  })

  it.each(['x', '{}', '5', '"all"', '[', '["abc"]', '[5]', '["1-a",null]'])('=%s is refused', async (value) => {
    const db = await client().database()
    await db.save('doc', {})
    const reply = await db.get(`doc?open_revs=${encodeURIComponent(value)}`)
    expect([reply.status, reply.as<{ error: string }>().error]).toEqual([400, 'bad_request'])
  })
})
