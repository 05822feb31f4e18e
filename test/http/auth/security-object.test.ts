import { describe, expect, it } from 'vitest'
import { expectRefusal, serverOfFile } from '../../support/client.ts'

const client = serverOfFile()

describe('/{db}/_security', () => {
  it('is an empty object until it is set', async () => {
    const db = await client().database()
    const reply = await db.get('_security')
    expect([reply.status, reply.text]).toEqual([200, '{}\n'])
  })

  it('returns what was put, further members too', async () => {
    const db = await client().database()
    const object = {
      admins: { names: ['ann'], roles: [] },
      members: { names: [], roles: ['staff'] },
      note: { '1': [] },
    }
    const reply = await db.put('_security', object)
    expect([reply.status, reply.text]).toEqual([200, '{"ok":true}\n'])
    expect((await db.get('_security')).json).toEqual(object)
    await db.put('_security', {})
    expect((await db.get('_security')).text).toBe('{}\n')
  })

  it.each([
    ['[]'],
    ['"text"'],
    ['null'],
    ['5'],
    ['{"admins":{"names":"ann"}}'],
    ['{"admins":{"names":[1]}}'],
    ['{"members":{"roles":{}}}'],
    ['{"members":{"names":[null]}}'],
    ['{'],
    [''],
  ])('refuses %s and stays as it was', async (body) => {
    const db = await client().database()
    await db.put('_security', { note: 'kept' })
    const reply = await db.put('_security', body)
    expect([reply.status, reply.as<{ error: string }>().error]).toEqual([400, 'bad_request'])
    expect((await db.get('_security')).json).toEqual({ note: 'kept' })
  })

  it.each([
    ['{"admins":{"names":"ann","roles":[]}}', 'names must be a JSON list of strings'],
    ['{"members":{"names":[],"roles":[5]}}', 'roles must be a JSON list of strings'],
  ])('reports the error of %s', async (body, reason) => {
    const db = await client().database()
    expectRefusal(await db.put('_security', body), 400, 'bad_request', reason)
  })
})
