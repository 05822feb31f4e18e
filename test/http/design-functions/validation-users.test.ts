import { beforeAll, describe, expect, it } from 'vitest'
import { expectRefusal, serverOfFile } from '../../support/client.ts'

const client = serverOfFile({
  settings: { service: { os_process_timeout: '3000' } },
})

const as = (name: string, password = 'pass') => ({
  Authorization: `Basic ${Buffer.from(`${name}:${password}`).toString('base64')}`,
})
const ADMIN = as('root', 'top')

beforeAll(async () => {
  for (const name of ['ann', 'bob']) {
    const user = { name, password: 'pass', roles: [`of-${name}`], type: 'user' }
    const reply = await client().request('PUT', `/_users/org.service.user:${name}`, { body: user })
    expect(reply.status, reply.text).toBe(201)
  }
  expect((await client().request('PUT', '/_config/admins/root', { body: '"top"' })).status).toBe(200)
})

async function put(path: string, body: unknown, headers: Record<string, string> = ADMIN) {
  return client().request('PUT', path, { body, headers })
}

describe('the writer', () => {
  it('is passed to the function, with name and roles', async () => {
    await put('/known', undefined)
    const source = 'function (newDoc, oldDoc, userCtx) { throw { forbidden: userCtx } }'
    await put('/known/_design/v', { validate_doc_update: source })
    for (const [headers, expected] of [
      [as('ann'), { db: 'known', name: 'ann', roles: ['of-ann'] }],
      [ADMIN, { db: 'known', name: 'root', roles: ['_admin'] }],
      [{}, { db: 'known', name: null, roles: [] }],
    ] as const) {
      const reply = await put('/known/a', {}, headers)
      expect(reply.as<{ reason: unknown }>().reason).toEqual(expected)
    }
  })

  it('is validated, administrators too', async () => {
    await put('/owned', undefined)
    const source = `function (newDoc, oldDoc, userCtx) {
      if (newDoc.owner !== userCtx.name) throw { unauthorized: 'Not yours.' };
    }`
    await put('/owned/_design/v', { validate_doc_update: source })
    expect((await put('/owned/a', { owner: 'ann' }, as('ann'))).status).toBe(201)
    for (const headers of [as('bob'), ADMIN]) {
      expectRefusal(await put('/owned/b', { owner: 'ann' }, headers), 401, 'unauthorized', 'Not yours.')
    }
    const documents = {
      docs: [
        { _id: 'c', owner: 'bob' },
        { _id: 'd', owner: 'ann' },
      ],
    }
    const bulk = await client().request('POST', '/owned/_bulk_docs', { body: documents, headers: as('bob') })
    expect(bulk.json).toMatchObject([{ ok: true }, { id: 'd', error: 'unauthorized', reason: 'Not yours.' }])
  })

  it('cannot write a design document all or nothing with others', async () => {
    await put('/plain', undefined)
    const body = { all_or_nothing: true, docs: [{ _id: 'a' }, { _id: '_design/x' }] }
    const reply = await client().request('POST', '/plain/_bulk_docs', { body, headers: as('ann') })
    const reason = 'You are not a db or server admin.'
    expect([reply.status, reply.json]).toEqual([417, [{ id: '_design/x', rev: '0-', error: 'unauthorized', reason }]])
    expect((await client().request('GET', '/plain/a')).status).toBe(404)
  })
})

describe('a function that does not return', () => {
  it('fails its own write, and blocks no other', async () => {
    await put('/slow', undefined)
    const source = 'function (newDoc) { if (newDoc.loop) for (;;) {} }'
    await put('/slow/_design/v', { validate_doc_update: source })
    const looping = put('/slow/a', { loop: 1 })
    let isOver = false
    looping.then(() => {
      isOver = true
    })
    for (let i = 0; i < 5; i++) expect((await put(`/slow/other-${i}`, {})).status).toBe(201)
    expect(isOver).toBe(false)
    expectRefusal(await looping, 500, 'os_process_error', 'OS process timed out.')
  })
})

describe('the users database', () => {
  it('applies its own rules itself, and further functions after them', async () => {
    const read = await client().request('GET', '/_users/_design/_auth', { headers: ADMIN })
    expect(read.as<{ validate_doc_update: string }>().validate_doc_update).toContain('function')
    const source = "function (newDoc) { if (newDoc.name === 'zoe') throw { forbidden: newDoc } }"
    const design = await put('/_users/_design/more', { validate_doc_update: source })
    expect(design.status).toBe(201)
    const user = (name: string) => ({ name, password: 'secret', roles: [], type: 'user' })
    expect((await put('/_users/org.service.user:yan', user('yan'), {})).status).toBe(201)
    const refused = await put('/_users/org.service.user:zoe', user('zoe'), {})
    expect(refused.status).toBe(403)
    // Passwords are hashed before any function sees them.
    expect(refused.text).not.toContain('secret')
    expect(refused.text).toContain('derived_key')
  })
})
