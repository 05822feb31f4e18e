import { describe, expect, it } from 'vitest'
import { virtualTarget } from '../../../src/http/negotiation/virtual-hosts.ts'
import { Client } from '../../support/client.ts'
import { startService } from '../../support/service.ts'

const GLOBAL = '_utils, _uuids'

function target(rules: Record<string, string>, host: string, url: string): string | undefined {
  return virtualTarget(new Map(Object.entries(rules)), GLOBAL, host, url)
}

describe('a virtual host', () => {
  it.each([
    ['a name', { 'a.example': '/db' }, 'a.example', '/doc?x=1', '/db/doc?x=1'],
    ['a name in any case, with any port', { 'A.example': '/db' }, 'a.EXAMPLE:81', '/', '/db'],
    ['another name', { 'a.example': '/db' }, 'b.example', '/', undefined],
    ['a port', { 'a.example:81': '/db' }, 'a.example:81', '/x', '/db/x'],
    ['another port', { 'a.example:81': '/db' }, 'a.example:82', '/x', undefined],
    ['a path', { 'a.example/blog': '/db' }, 'a.example', '/blog/x/y', '/db/x/y'],
    ['another path', { 'a.example/blog': '/db' }, 'a.example', '/blogs/x', undefined],
    ['a label', { ':name.example': '/:name' }, 'ann.example', '/x', '/ann/x'],
    ['labels', { ':a.:b.example': '/:b/:a/:c' }, 'x.y.example', '/', '/y/x/undefined'],
    ['too many labels', { ':name.example': '/:name' }, 'a.b.example', '/x', undefined],
    ['a star', { '*.example': '/db/*' }, 'a.b.example', '/x', '/db/b/a/x'],
    ['a star that needs a label', { '*.example': '/db' }, 'example', '/x', undefined],
    ['a star alone', { '*': '/db' }, 'any.where', '/x', '/db/x'],
    ['the root', { 'a.example': '/' }, 'a.example', '/db/x', '/db/x'],
    ['an empty target', { 'a.example': '' }, 'a.example', '/x', undefined],
    ['what is for all hosts', { 'a.example': '/db' }, 'a.example', '/_uuids?count=1', undefined],
    ['escapes', { 'a.example': '/a%2Fb' }, 'a.example', '/x%2Fy', '/a%2Fb/x%2Fy'],
  ])('may have %s', (_what, rules, host, url, expected) => {
    expect(target(rules, host, url)).toBe(expected)
  })

  it('of several rules takes the closest one', () => {
    const rules = {
      '*': '/any',
      '*.example': '/star',
      ':name.example': '/label',
      'a.example': '/name',
      'a.example:81': '/port',
      'a.example/x': '/path',
      'a.example/x/y': '/long',
    }
    expect(target(rules, 'a.example', '/')).toBe('/name')
    expect(target(rules, 'a.example', '/x')).toBe('/path')
    expect(target(rules, 'a.example', '/x/y')).toBe('/long')
    expect(target(rules, 'b.example', '/')).toBe('/label')
    expect(target(rules, 'b.c.example', '/')).toBe('/star')
    expect(target(rules, 'elsewhere', '/')).toBe('/any')
  })

  it('is the host of the address that a design document really has', async () => {
    const client = new Client((await startService()).url)
    const db = await client.database()
    await db.save('_design/x', { a: 1 })
    for (const [host, target] of [
      ['a.example', `/${db.name}`],
      ['b.example', `/${db.name}/_design%2Fx`],
    ]) {
      await client.request('PUT', `/_config/vhosts/${host}`, { body: JSON.stringify(target) })
    }
    const redirected = await client.request('GET', '/_design%2Fx?rev=1', { headers: { Host: 'a.example' } })
    expect([redirected.status, redirected.headers.location]).toEqual([301, 'http://a.example/_design/x?rev=1'])
    // What the client did not escape it cannot put right.
    const served = await client.request('GET', '/', { headers: { Host: 'b.example' } })
    expect([served.status, served.json]).toMatchObject([200, { _id: '_design/x', a: 1 }])
    const absolute = await client.request('GET', `http://${client.host}/${db.name}/_design%2Fx`)
    expect([absolute.status, absolute.headers.location]).toEqual([301, `${db.url}/_design/x`])
  })

  it('leads to its place as soon as it is set, also behind a proxy', async () => {
    const client = new Client((await startService()).url)
    const db = await client.database()
    await db.save('doc', { a: 1 })
    const get = (path: string, headers: Record<string, string>) => client.request('GET', path, { headers })
    expect((await get('/doc', { Host: 'a.example' })).status).toBe(404)
    await client.request('PUT', '/_config/vhosts/a.example', { body: JSON.stringify(`/${db.name}`) })
    expect((await get('/doc', { Host: 'a.example' })).json).toMatchObject({ a: 1 })
    expect((await get('/doc', { 'X-Forwarded-Host': 'a.example' })).json).toMatchObject({ a: 1 })
    expect((await get('/', { Host: 'a.example' })).json).toMatchObject({ db_name: db.name })
    expect((await get('/_uuids', { Host: 'a.example' })).json).toHaveProperty('uuids')
    expect((await get('/doc', { Host: 'b.example' })).status).toBe(404)
    await client.request('DELETE', '/_config/vhosts/a.example')
    expect((await get('/doc', { Host: 'a.example' })).status).toBe(404)
  })
})
