import { describe, expect, it } from 'vitest'
import { expectConflict, expectRefusal, serverOfFile } from '../../support/client.ts'

const client = serverOfFile()

describe('a design document', () => {
  it('is found by both forms of its path, with a redirect from the escaped one', async () => {
    const db = await client().database()
    const rev = await db.save('_design/x', { language: 'javascript' })
    expect((await db.get('_design/x')).text).toBe(`{"_id":"_design/x","_rev":"${rev}","language":"javascript"}\n`)
    for (const slash of ['%2F', '%2f']) {
      for (const method of ['GET', 'HEAD']) {
        const reply = await db.request(method, `_design${slash}x?rev=${rev}&revs=true`)
        expect([reply.status, reply.text]).toEqual([301, ''])
        expect(reply.headers.location).toBe(`${db.url}/_design/x?rev=${rev}&revs=true`)
      }
    }
  })

  it('redirects before it reads the document', async () => {
    const db = await client().database()
    expect((await db.get('_design%2Fnosuch')).headers.location).toBe(`${db.url}/_design/nosuch`)
    expect((await db.get('_design%2Fx/att%2Fname')).headers.location).toBe(`${db.url}/_design/x/att%2Fname`)
  })

  it('is written, copied and deleted by the escaped path without one', async () => {
    const db = await client().database()
    const put = await db.put('_design%2Fx', { a: 1 })
    expect([put.status, put.json]).toEqual([201, { ok: true, id: '_design/x', rev: put.rev }])
    expect((await db.copy('_design%2Fx', 'plain')).status).toBe(201)
    expect((await db.delete(`_design%2Fx?rev=${put.rev}`)).status).toBe(200)
    expectRefusal(await db.get('_design/x'), 404, 'not_found', 'deleted')
  })

  it('has a Location that leads to it', async () => {
    const db = await client().database()
    const { location } = (await db.put('_design/x', {})).headers
    expect(location).toMatch(/\/_design(\/|%2F)x$/)
  })

  it('may have a slash in its name', async () => {
    const db = await client().database()
    expect((await db.put('_design/a%2Fb', {})).json).toMatchObject({ id: '_design/a/b' })
    expect((await db.get('_design/a%2Fb')).json).toMatchObject({ _id: '_design/a/b' })
  })

  it('follows the rules of all documents', async () => {
    const db = await client().database()
    const rev = await db.save('_design/x', {})
    expectConflict(await db.put('_design/x', {}))
    expectConflict(await db.delete('_design/x'))
    expect(await db.save('_design/x', { _rev: rev })).toBe('2-7051cbe5c8faecd085a3fa619e6e6337')
    expectRefusal(await db.get('_design/nosuch'), 404, 'not_found', 'missing')
    expect((await db.get('_all_docs')).json).toMatchObject({ rows: [{ id: '_design/x' }] })
  })

  it('has no handlers but those that are known', async () => {
    const db = await client().database()
    await db.save('_design/x', {})
    expectRefusal(await db.get('_design/x/_nosuch'), 404, 'not_found', 'missing handler: _nosuch')
    expectRefusal(await db.get('_design/x/_nosuch/more'), 404, 'not_found', 'missing handler: _nosuch')
  })
})
