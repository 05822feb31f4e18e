import { request as httpRequest } from 'node:http'
import { connect } from 'node:net'
import { describe, expect, it } from 'vitest'
import { commit } from '../../../src/runtime/commit.ts'
import { startService } from '../../support/service.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

async function get(url: string, headers: Record<string, string> = {}) {
  const response = await fetch(url, { headers })
  return { status: response.status, headers: response.headers, text: await response.text() }
}

describe('GET /', () => {
  it('returns the names of the server', async () => {
    const { url } = await startService()
    const { status, text } = await get(url)
    expect(status).toBe(200)
    expect(text.endsWith('}\n')).toBe(true)
    const { uuid, git_sha, ...rest } = JSON.parse(text)
    // Without a build or a checkout there is none.
    if (commit !== undefined) expect(git_sha).toMatch(/^[0-9a-f]{9}$/)
    expect(git_sha).toBe(commit)
    expect(uuid).toMatch(/^[0-9a-f]{32}$/)
    expect(rest).toEqual({
      service: 'Welcome',
      couchdb: 'Welcome',
      version: expect.stringMatching(/^\d+\.\d+\.\d+$/),
      features: ['partitioned', 'scheduler'],
      vendor: { name: 'Settle', version: rest.version },
    })
    const names = ['service', 'couchdb', 'uuid', 'version', ...(commit ? ['git_sha'] : []), 'features', 'vendor']
    expect(Object.keys(JSON.parse(text))).toEqual(names)
  })

  it('keeps its uuid across restarts, and a new data folder gets a new one', async () => {
    const dir = await temporaryFolder()
    const first = await startService({ dir })
    const { uuid } = JSON.parse((await get(first.url)).text)
    await first.close()
    const second = await startService({ dir })
    expect(JSON.parse((await get(second.url)).text).uuid).toBe(uuid)
    const other = await startService()
    expect(JSON.parse((await get(other.url)).text).uuid).not.toBe(uuid)
  })

  it.each([
    [undefined, 'text/plain;charset=utf-8'],
    ['*/*', 'text/plain;charset=utf-8'],
    ['text/html', 'text/plain;charset=utf-8'],
    ['application/json', 'application/json'],
    ['application/json, */*', 'application/json'],
    ['text/html, application/json;q=0.9', 'application/json'],
    ['application/json; charset=utf-8', 'application/json'],
    ['application/json;q=0', 'text/plain;charset=utf-8'],
    ['application/jsonp', 'text/plain;charset=utf-8'],
  ])('to a client that accepts %s is %s', async (accept, type) => {
    const { url } = await startService()
    const headers = await new Promise<NodeJS.Dict<string | string[]>>((resolve, reject) => {
      httpRequest(url, { headers: accept === undefined ? {} : { Accept: accept } }, (response) => {
        response.resume()
        resolve(response.headers)
      })
        .on('error', reject)
        .end()
    })
    expect(headers['content-type']).toBe(type)
    expect(headers['cache-control']).toBe('must-revalidate')
    expect(headers.server).toMatch(/^Service\/\d+\.\d+\.\d+ \(.+\)$/)
    expect(headers.date).toBeDefined()
  })

  it('answers HEAD with the same head and no body', async () => {
    const { url } = await startService()
    const whole = await get(url)
    const head = await fetch(url, { method: 'HEAD' })
    expect(head.status).toBe(200)
    expect(head.headers.get('content-length')).toBe(String(Buffer.byteLength(whole.text)))
    expect(await head.text()).toBe('')
  })

  it.each(['POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS', 'PROPFIND'])(
    'refuses %s with the methods that it has',
    async (method) => {
      const { url } = await startService()
      const response = await fetch(url, { method })
      expect(response.status).toBe(405)
      expect(response.headers.get('allow')).toBe('GET,HEAD')
      expect(await response.json()).toEqual({ error: 'method_not_allowed', reason: 'Only GET,HEAD allowed' })
    },
  )
})

describe('GET /_all_dbs', () => {
  it('has the users database on a new server', async () => {
    const { url } = await startService()
    expect(await get(`${url}_all_dbs`)).toMatchObject({ status: 200, text: '["_replicator","_users"]\n' })
  })

  it.each(['limit=x', 'skip=-1', 'limit=1.5', 'skip='])('refuses %s', async (query) => {
    const { url } = await startService()
    const { status, text } = await get(`${url}_all_dbs?${query}`)
    expect(status).toBe(400)
    const reason = expect.stringContaining(query.split('=')[0]!)
    expect(JSON.parse(text)).toMatchObject({ error: 'query_parse_error', reason })
  })
})

describe('GET /_uuids', () => {
  it('returns one id, or the requested number, ascending and unique', async () => {
    const { url } = await startService()
    const one = await get(`${url}_uuids`)
    expect(JSON.parse(one.text).uuids).toHaveLength(1)
    const { uuids } = JSON.parse((await get(`${url}_uuids?count=1000`)).text)
    expect(new Set(uuids).size).toBe(1000)
    expect([...uuids].sort()).toEqual(uuids)
    for (const id of uuids) expect(id).toMatch(/^[0-9a-f]{32}$/)
    expect(JSON.parse((await get(`${url}_uuids?count=0`)).text)).toEqual({ uuids: [] })
  })

  it('must not be cached', async () => {
    const { url } = await startService()
    const first = await get(`${url}_uuids`)
    const second = await get(`${url}_uuids`)
    expect(first.headers.get('cache-control')).toBe('must-revalidate, no-cache')
    expect(first.headers.get('pragma')).toBe('no-cache')
    expect(first.headers.get('expires')).toBe('Fri, 01 Jan 1990 00:00:00 GMT')
    expect(first.headers.get('etag')).toMatch(/^".+"$/)
    expect(first.headers.get('etag')).not.toBe(second.headers.get('etag'))
  })

  it('refuses counts above the limit, invalid numbers and other methods', async () => {
    const { url } = await startService()
    const tooMany = await get(`${url}_uuids?count=1001`)
    expect([tooMany.status, JSON.parse(tooMany.text)]).toEqual([
      403,
      { error: 'forbidden', reason: 'count parameter too large' },
    ])
    for (const count of ['-1', 'x', '1.5']) expect((await get(`${url}_uuids?count=${count}`)).status).toBe(400)
    const post = await fetch(`${url}_uuids`, { method: 'POST' })
    expect([post.status, post.headers.get('allow')]).toEqual([405, 'GET'])
  })
})

describe('a path', () => {
  it('ignores empty segments', async () => {
    const { url } = await startService()
    for (const path of ['_all_dbs/', '/_all_dbs', '//_all_dbs//', '_all_dbs/x']) {
      expect((await get(url + path)).text).toBe('["_replicator","_users"]\n')
    }
  })

  it('may contain a broken escape', async () => {
    const { url } = await startService()
    const { hostname, port } = new URL(url)
    for (const path of ['/%', '/%zz', '/%ff%fe', `/${'x'.repeat(4000)}`]) {
      const status = await new Promise<string>((resolve, reject) => {
        const socket = connect(Number(port), hostname, () =>
          socket.write(`GET ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`),
        )
        let text = ''
        socket
          .on('data', (data) => (text += data))
          .on('end', () => resolve(text.slice(0, 12)))
          .on('error', reject)
      })
      expect(status).toMatch(/^HTTP\/1\.1 4/)
    }
    expect((await get(url)).status).toBe(200)
  })
})
