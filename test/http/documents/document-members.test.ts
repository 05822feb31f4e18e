import { describe, expect, it } from 'vitest'
import { expectRefusal, serverOfFile } from '../../support/client.ts'

const client = serverOfFile()

describe('underscore members', () => {
  it.each(['_odd', '_', '_Id', '_revs', '_access', '_seq', '_purged', '_update_seq'])(
    'refuses %s with 500, as clients of the family expect',
    async (name) => {
      const db = await client().database()
      const reply = await db.put('doc', { [name]: 1 })
      expectRefusal(reply, 500, 'doc_validation', `Bad special document member: ${name}`)
      expect((await db.info()).update_seq).toBe(0)
    },
  )

  it.each([
    ['_deleted', 'x'],
    ['_deleted', 1],
    ['_deleted', null],
    ['_attachments', []],
    ['_attachments', 'x'],
    ['_revisions', 1],
    ['_revisions', []],
  ])('refuses %s of a type that it cannot have: %j', async (name, value) => {
    const db = await client().database()
    const reply = await db.put('doc', { [name]: value })
    expectRefusal(reply, 500, 'doc_validation', `Bad special document member: ${name}`)
    expect((await db.info()).update_seq).toBe(0)
  })

  it.each([
    [{ start: 'x', ids: ['a'] }, "_revisions.start isn't an integer."],
    [{ start: 1.5, ids: ['a'] }, "_revisions.start isn't an integer."],
    [{ start: 1, ids: 'a' }, "_revisions.ids isn't a array."],
    [{ start: 1, ids: [1] }, "RevId isn't a string"],
  ])('refuses %j for _revisions', async (_revisions, reason) => {
    const db = await client().database()
    expectRefusal(await db.put('doc?new_edits=false', { _revisions }), 500, 'doc_validation', reason)
    expect((await db.info()).update_seq).toBe(0)
  })

  it('drops members that read options add, so that a document can be written back', async () => {
    const db = await client().database()
    await db.replicate({ _id: 'd', _rev: '1-a', n: 1 }, { _id: 'd', _rev: '1-b', n: 2 })
    await db.replicate({ _id: 'd', _rev: '1-0', _deleted: true })
    const read = await db.get('d?meta=true&local_seq=true')
    expect(Object.keys(read.as<object>())).toEqual([
      '_id',
      '_rev',
      'n',
      '_revs_info',
      '_conflicts',
      '_deleted_conflicts',
      '_local_seq',
    ])
    const { rev } = await db.put('d', read.text)
    expect((await db.get('d')).json).toEqual({ _id: 'd', _rev: rev, n: 2 })
    await db.save('plain', { _revs_info: [], _local_seq: 5, _conflicts: ['1-x'], _deleted_conflicts: [], a: 1 })
    expect((await db.get('plain')).json).toEqual({ _id: 'plain', _rev: '1-23202479633c2b380f79507a776743d5', a: 1 })
  })

  it('keeps the members of the replicator', async () => {
    const db = await client().database()
    const members = {
      _replication_state: 'error',
      _replication_state_time: '2013-12-13T18:48:00+01:00',
      _replication_state_reason: 'x',
      _replication_id: 'y',
      _replication_stats: { docs_read: 1 },
    }
    await db.save('doc', { ...members, a: 1 })
    expect((await db.get('doc')).json).toMatchObject({ ...members, a: 1 })
  })

  it('leaves nested ones alone', async () => {
    const db = await client().database()
    const body = { a: { _id: 1, _rev: null, _odd: [{ _deleted: 'x' }] } }
    const rev = await db.save('doc', body)
    expect((await db.get('doc')).json).toEqual({ _id: 'doc', _rev: rev, ...body })
  })

  it('takes _deleted:false for a live document', async () => {
    const db = await client().database()
    const rev = await db.save('doc', { _deleted: false, a: 1 })
    expect((await db.get('doc')).text).toBe(`{"_id":"doc","_rev":"${rev}","a":1}\n`)
  })
})

describe('revisions in a body', () => {
  it('_rev applies when it is before _revisions, and not when it is after', async () => {
    const db = await client().database()
    const body = '"_revisions":{"start":2,"ids":["b","a"]}'
    await db.put('after?new_edits=false', `{${body},"_rev":"5-x"}`)
    expect((await db.get('after')).json).toMatchObject({ _rev: '2-b' })
    expect((await db.put('same?new_edits=false', `{"_rev":"2-b",${body}}`)).rev).toBe('2-b')
  })
})
describe('a body', () => {
  it.each([
    ['members in the order of the request', '{"z":1,"a":2,"m":3}'],
    ['names that look like numbers where they stood', '{"b":1,"10":2,"2":3,"a":{"9":1,"1":2,"x":3},"0":[]}'],
    ['names that mean something elsewhere', '{"constructor":2,"toString":{"__proto__":{"a":1},"length":0}}'],
    ['long integers', '{"a":12345678901234567890,"b":-98765432109876543210987654321}'],
    ['the digits of numbers', '{"a":1.10,"b":1.0,"c":100,"d":1e3,"e":1.5E-7,"f":0.1,"g":123456789.123456789012345}'],
    ['nested values', '{"a":[1,[2,{"b":null}],{}],"c":{"d":{"e":[]}},"f":[true,false,null,""]}'],
    ['text as UTF-8', '{"é":"日本語 😀 / \u007f"}'],
    ['an empty name', '{"":{"":[]}}'],
  ])('keeps %s', async (_what, body) => {
    const db = await client().database()
    const rev = await db.save('doc', body)
    const members = body.slice(1, -1)
    expect((await db.get('doc')).text).toBe(`{"_id":"doc","_rev":"${rev}",${members}}\n`)
    expect((await db.get('_all_docs?include_docs=true')).text).toContain(
      `"doc":{"_id":"doc","_rev":"${rev}",${members}}`,
    )
    const copy = (await db.copy('doc', 'copy')).rev
    expect((await db.get('copy')).text).toBe(`{"_id":"copy","_rev":"${copy}",${members}}\n`)
  })

  it('loses its white space', async () => {
    const db = await client().database()
    const rev = await db.save('doc', ' {\r\n\t"a" : [ 1 , 2 ] ,\n"b":{ } }\n ')
    expect((await db.get('doc')).text).toBe(`{"_id":"doc","_rev":"${rev}","a":[1,2],"b":{}}\n`)
  })

  it('may have its underscore members anywhere', async () => {
    const db = await client().database()
    const first = await db.save('doc', {})
    const rev = await db.save('doc', `{"z":1,"_rev":"${first}","a":2,"_id":"doc","_deleted":false,"m":3}`)
    expect((await db.get('doc')).text).toBe(`{"_id":"doc","_rev":"${rev}","z":1,"a":2,"m":3}\n`)
  })

  it('keeps the last value of duplicate members, at the position of the first', async () => {
    const db = await client().database()
    const rev = await db.save('doc', '{"a":1,"b":2,"a":3,"c":{"x":1,"y":2,"x":[3]}}')
    expect((await db.get('doc')).text).toBe(`{"_id":"doc","_rev":"${rev}","a":3,"b":2,"c":{"x":[3],"y":2}}\n`)
  })

  it('compares member names after decoding', async () => {
    const db = await client().database()
    const rev = await db.save('doc', '{"a":1,"\\u0061":2}')
    expect((await db.get('doc')).text).toBe(`{"_id":"doc","_rev":"${rev}","a":2}\n`)
  })

  it('may write its underscore members with escapes', async () => {
    const db = await client().database()
    const first = await db.save('doc', {})
    const rev = await db.save('doc', `{"\\u005frev":"${first}","a":1}`)
    expect((await db.get('doc')).json).toEqual({ _id: 'doc', _rev: rev, a: 1 })
    const reply = await db.put('other', '{"\\u005fodd":1}')
    expectRefusal(reply, 500, 'doc_validation', 'Bad special document member: _odd')
  })

  it('keeps the content of strings, whatever their escapes', async () => {
    const db = await client().database()
    const rev = await db.save('doc', '{"a":"\\u00e9\\ud83d\\ude00\\/\\"\\\\\\b\\f\\n\\r\\t\\u0000\\u001f"}')
    expect((await db.get('doc')).json).toEqual({ _id: 'doc', _rev: rev, a: 'é😀/"\\\b\f\n\r\t\u0000\u001f' })
  })

  it('has a replacement character for half of a surrogate pair', async () => {
    const db = await client().database()
    await db.save('doc', '{"a":"x\\ud83dy","b":"\\ude00"}')
    expect((await db.get('doc')).json).toMatchObject({ a: 'x\ufffdy', b: '\ufffd' })
  })

  it('may be large', async () => {
    const db = await client().database()
    const body = { list: Array.from({ length: 20_000 }, (_, n) => ({ n, text: `entry ${n}` })) }
    await db.save('doc', body)
    expect((await db.get('doc')).json).toMatchObject(body)
  })

  it('may be empty', async () => {
    const db = await client().database()
    expect(await db.save('doc', '{}')).toBe('1-967a00dff5e02add41819138abb3284d')
    expect((await db.get('doc')).text).toBe('{"_id":"doc","_rev":"1-967a00dff5e02add41819138abb3284d"}\n')
  })
})
