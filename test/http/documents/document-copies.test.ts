import { describe, expect, it } from 'vitest'
import { expectConflict, expectRefusal, serverOfFile } from '../../support/client.ts'

const client = serverOfFile()

describe('COPY', () => {
  it('creates a document with the same body', async () => {
    const db = await client().database()
    const rev = await db.save('source', { a: 1 })
    await db.save('source', { _rev: rev, b: 2 })
    const reply = await db.copy('source', 'target')
    expect(reply.status).toBe(201)
    expect(reply.text).toBe('{"ok":true,"id":"target","rev":"1-d33fb05384fa65a8081da2046595de0f"}\n')
    expect(reply.headers.etag).toBe('"1-d33fb05384fa65a8081da2046595de0f"')
    expect(reply.headers.location).toBe(`${db.url}/target`)
    expect((await db.get('target?revs=true')).json).toEqual({
      _id: 'target',
      _rev: reply.rev,
      b: 2,
      _revisions: { start: 1, ids: [reply.rev.slice(2)] },
    })
  })

  it('copies the revision that is named', async () => {
    const db = await client().database()
    const rev = await db.save('source', { a: 1 })
    await db.save('source', { _rev: rev, b: 2 })
    await db.copy(`source?rev=${rev}`, 'by-query')
    await db.copy('source', 'by-header', { 'If-Match': `"${rev}"` })
    for (const id of ['by-query', 'by-header']) expect((await db.get(id)).json).toMatchObject({ a: 1 })
    const etag = 'Document rev and etag have different values'
    expectRefusal(await db.copy(`source?rev=${rev}`, 'x', { 'If-Match': '1-x' }), 400, 'bad_request', etag)
  })

  it('replaces a document whose revision the destination has', async () => {
    const db = await client().database()
    await db.save('source', { a: 1 })
    const target = await db.save('target', { b: 2 })
    expectConflict(await db.copy('source', 'target'))
    expectConflict(await db.copy('source', 'target?rev=1-abc'))
    const reply = await db.copy('source', `target?rev=${target}`)
    expect([reply.status, reply.rev.slice(0, 2)]).toEqual([201, '2-'])
    expect((await db.get('target')).json).toEqual({ _id: 'target', _rev: reply.rev, a: 1 })
  })

  it('may have its source as destination', async () => {
    const db = await client().database()
    const first = await db.save('doc', {})
    const second = await db.save('doc', { _rev: first, n: 2 })
    expectConflict(await db.copy('doc', 'doc'))
    const reply = await db.copy(`doc?rev=${first}`, `doc?rev=${second}`)
    expect([reply.status, reply.rev.slice(0, 2)]).toEqual([201, '3-'])
    expect((await db.get('doc')).json).toEqual({ _id: 'doc', _rev: reply.rev })
  })

  it('recreates a deleted target', async () => {
    const db = await client().database()
    await db.save('source', {})
    await db.saveAndRemove('target', {})
    expect((await db.copy('source', 'target')).rev).toBe('3-5570e8bbb34412db757c2df4bfa1099b')
  })

  it.each([
    ['a%2Fb', 'a/b'],
    ['%C3%A9', 'é'],
    ['_design/x', '_design/x'],
    ['_design%2Fx', '_design/x'],
  ])('maps the destination %s to %s', async (destination, id) => {
    const db = await client().database()
    await db.save('source', { a: 1 })
    expect((await db.copy('source', destination)).json).toMatchObject({ ok: true, id })
    expect((await db.get(encodeURI(id).replace('a/b', 'a%2Fb'))).json).toMatchObject({ _id: id, a: 1 })
  })

  it('needs a destination that is an id', async () => {
    const db = await client().database()
    await db.save('source', {})
    const mandatory = 'Destination header is mandatory for COPY.'
    expectRefusal(await db.copy('source', undefined), 400, 'bad_request', mandatory)
    for (const destination of [`${db.url}/target`, 'https://example.org/db/target']) {
      const reply = await db.copy('source', destination)
      expectRefusal(reply, 400, 'bad_request', 'Destination URL must be relative.')
    }
    const underscore = 'Only reserved document ids may start with underscore.'
    expectRefusal(await db.copy('source', '_odd'), 400, 'bad_request', underscore)
    expectRefusal(await db.copy('source', 'target?rev=abc'), 400, 'bad_request', 'Invalid rev format')
    expect((await db.info()).update_seq).toBe(1)
  })

  it('needs a source', async () => {
    const db = await client().database()
    const { live } = await db.saveAndRemove('gone', { a: 1 })
    expectRefusal(await db.copy('nosuch', 'target'), 404, 'not_found', 'missing')
    expectRefusal(await db.copy('gone', 'target'), 404, 'not_found', 'deleted')
    expectRefusal(await db.copy('gone?rev=5-abc', 'target'), 404, 'not_found', 'missing')
    expectRefusal(await db.copy('gone?rev=abc', 'target'), 400, 'bad_request', 'Invalid rev format')
    expect((await db.copy(`gone?rev=${live}`, 'target')).status).toBe(201)
  })
})
