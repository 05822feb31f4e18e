import { describe, expect, it } from 'vitest'
import { type RequestOptions, serverOfFile } from '../../support/client.ts'

const client = serverOfFile()
const BASIC = { Authorization: `Basic ${Buffer.from('ann:secret').toString('base64')}` }

/** Ann, a plain user, signed in with a cookie. */
async function signedIn(): Promise<{ Cookie: string }> {
  const ann = { name: 'ann', password: 'secret', roles: [], type: 'user' }
  const created = await client().request('PUT', '/_users/org.couchdb.user:ann', { body: ann })
  expect([201, 409]).toContain(created.status)
  const reply = await client().request('POST', '/_session', { body: { name: 'ann', password: 'secret' } })
  expect(reply.json).toEqual({ ok: true, name: 'ann', roles: [] })
  return { Cookie: reply.headers['set-cookie']?.[0]?.split(';')[0] ?? '' }
}

describe('while there is no administrator', () => {
  const requests: [string, string, RequestOptions['body'], number][] = [
    ['GET', '/_config', undefined, 200],
    ['PUT', '/_config/some/thing', '"x"', 200],
    ['GET', '/_active_tasks', undefined, 200],
    ['GET', '/_log', undefined, 200],
    ['GET', '/_users/_all_docs', undefined, 200],
    ['PUT', '/made', undefined, 201],
    ['PUT', '/made/_design/d', {}, 201],
    ['PUT', '/made/_security', { admins: { names: ['bob'] }, members: { names: ['bob'] } }, 200],
    ['PUT', '/made/_revs_limit', '10', 200],
    ['GET', '/made/_all_docs', undefined, 200],
    ['POST', '/made/_compact', '', 202],
    ['DELETE', '/made', undefined, 200],
    ['PUT', '/_users/org.couchdb.user:eve', { name: 'eve', roles: ['staff'], type: 'user', password: 'x' }, 201],
    ['PUT', '/_replicator/r', { source: 'a', target: 'b', user_ctx: { name: 'bob', roles: ['x'] } }, 201],
  ]

  it.each(['cookie', 'basic'])('a user who signed in with %s may do everything', async (way) => {
    const cookie = await signedIn()
    const headers = way === 'cookie' ? cookie : BASIC
    const { json } = await client().request('GET', '/_session', { headers })
    expect(json).toMatchObject({ userCtx: { name: 'ann', roles: [] } })
    for (const [method, path, body, status] of requests) {
      const named = path.replace(/(eve|r)$/, `$1-${way}`)
      const sent = path.endsWith('eve') ? { ...Object(body), name: `eve-${way}` } : body
      const reply = await client().request(method, named, { headers, body: sent })
      expect(reply.status, `${method} ${path} ${reply.text}`).toBe(status)
    }
  })

  it('ends with the first administrator', async () => {
    const headers = await signedIn()
    expect((await client().request('PUT', '/_config/admins/root', { body: '"top"' })).status).toBe(200)
    expect((await client().request('GET', '/_config', { headers })).status).toBe(401)
    expect((await client().request('PUT', '/other', { headers })).status).toBe(401)
    expect((await client().request('GET', '/_config', { headers: BASIC })).status).toBe(401)
    expect((await client().request('GET', '/_config')).status).toBe(401)
  })
})
