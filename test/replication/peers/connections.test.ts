/** How a replication reaches another server: credentials, sessions, proxies, redirects, TLS, and servers that can less. */

import { randomBytes } from 'node:crypto'
import type { AddressInfo } from 'node:net'
import { connect, createServer, type Socket } from 'node:net'
import { gzipSync } from 'node:zlib'
import { describe, expect, it, onTestFinished } from 'vitest'
import { certificate } from '../../support/certificate.ts'
import { Client, serverOfFile, type TestDatabase } from '../../support/client.ts'
import { startService } from '../../support/service.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { until } from '../../support/until.ts'
import { expectSame, post, replicate } from '../peers.ts'
import { FrontServer } from './front-server.ts'
import { ScriptedPeer, status } from './scripted-peer.ts'

const here = serverOfFile()
const there = serverOfFile({ settings: { admins: { root: 'sec/ret:ü' } } })
const open = serverOfFile()

const ROOT = { Authorization: `Basic ${Buffer.from('root:sec/ret:ü').toString('base64')}` }

/** A database of the server with an administrator, one document in it. */
async function guarded(name: string): Promise<void> {
  expect((await there().request('PUT', `/${name}`, { headers: ROOT })).status).toBe(201)
  await there().request('PUT', `/${name}/doc`, { headers: ROOT, body: { a: 1 } })
  const security = { members: { names: ['root'], roles: [] } }
  await there().request('PUT', `/${name}/_security`, { headers: ROOT, body: security })
}

async function filled(): Promise<TestDatabase> {
  const source = await open().database()
  await source.save('plain', { a: 1 })
  await source.put('with/a.txt', 'text '.repeat(1000), { 'Content-Type': 'text/plain' })
  await source.put('more/b', Buffer.alloc(200_000, 3), { 'Content-Type': 'image/png' })
  return source
}

describe('credentials', () => {
  it('in the URL begin a session, which all further requests use', async () => {
    await guarded('with-session')
    const front = await FrontServer.start(there().url)
    const target = await here().database()
    const source = `http://root:${encodeURIComponent('sec/ret:ü')}@${front.host}/with-session`
    await replicate(here(), { source, target: target.name })
    expect((await target.get('doc')).status).toBe(200)
    const [login, ...others] = front.seen
    expect([login?.method, login?.url]).toEqual(['POST', '/_session'])
    for (const { headers } of others) {
      expect(headers.cookie).toMatch(/^AuthSession=/)
      expect(headers.authorization).toBeUndefined()
    }
  })

  it('go as a password where the server has no sessions', async () => {
    await guarded('no-session')
    const front = await FrontServer.start(there().url, ({ url }, response) => {
      if (url !== '/_session') return false
      response.writeHead(404).end('{"error":"not_found","reason":"missing"}')
      return true
    })
    const target = await here().database()
    const source = {
      url: `http://${front.host}/no-session`,
      auth: { basic: { username: 'root', password: 'sec/ret:ü' } },
    }
    await replicate(here(), { source, target: target.name })
    expect((await target.get('doc')).status).toBe(200)
    expect(front.seen.at(-1)?.headers.authorization).toBe(ROOT.Authorization)
  })

  it('as headers are sent as they are', async () => {
    await guarded('with-headers')
    const target = await here().database()
    const source = { url: `http://${there().host}/with-headers`, headers: ROOT }
    await replicate(here(), { source, target: target.name })
    expect((await target.get('doc')).status).toBe(200)
  })

  it('that expire in the middle are renewed', async () => {
    await guarded('expiring')
    let isRefused = false
    const front = await FrontServer.start(there().url, ({ url = '' }, response) => {
      if (isRefused || !url.includes('_changes')) return false
      isRefused = true
      response.writeHead(401).end('{"error":"unauthorized","reason":"x"}')
      return true
    })
    const target = await here().database()
    const source = `http://root:${encodeURIComponent('sec/ret:ü')}@${front.host}/expiring`
    await replicate(here(), { source, target: target.name })
    expect(front.seen.filter(({ url }) => url === '/_session')).toHaveLength(2)
    expect((await target.get('doc')).status).toBe(200)
  })

  it('that are wrong are reported', async () => {
    await guarded('refused')
    const target = await here().database()
    const reply = await post(here(), { source: `http://root:wrong@${there().host}/refused`, target: target.name })
    expect(reply.status).toBe(500)
    expect(reply.as<{ error: string }>().error).toBe('unauthorized')
  })

  it('of OAuth sign each request', async () => {
    const settings = {
      httpd: {
        authentication_handlers:
          '{service_httpd_oauth, oauth_authentication_handler}, {service_httpd_auth, default_authentication_handler}',
      },
      oauth_consumer_secrets: { consumer: 'one' },
      oauth_token_secrets: { token: 'two' },
      oauth_token_users: { token: 'root' },
      admins: { root: 'pw' },
    }
    const service = await startService({ settings })
    const client = new Client(service.url)
    onTestFinished(() => client.close())
    const basic = { Authorization: `Basic ${Buffer.from('root:pw').toString('base64')}` }
    await client.request('PUT', '/signed', { headers: basic })
    await client.request('PUT', '/signed/a%20b', { headers: basic, body: {} })
    await client.request('PUT', '/signed/_security', {
      headers: basic,
      body: { members: { names: ['root'], roles: [] } },
    })
    const target = await here().database()
    for (const signature_method of ['HMAC-SHA1', 'PLAINTEXT']) {
      const oauth = {
        consumer_key: 'consumer',
        consumer_secret: 'one',
        token: 'token',
        token_secret: 'two',
        signature_method,
      }
      const source = { url: `${service.url}signed`, auth: { oauth } }
      await replicate(here(), { source, target: target.name, use_checkpoints: false })
    }
    expect((await target.get('a%20b')).status).toBe(200)
  })
})

describe('on the way', () => {
  it('an HTTP proxy is used', async () => {
    const source = await filled()
    const target = await here().database()
    const proxy = await FrontServer.start(open().url)
    await replicate(here(), { source: source.url, target: target.name, proxy: `http://joe:pw@${proxy.host}` })
    await expectSame(source, target)
    expect(proxy.seen[0]?.url).toBe(`${source.url}/`)
    const expected = `Basic ${Buffer.from('joe:pw').toString('base64')}`
    expect(proxy.seen.every(({ headers }) => headers['proxy-authorization'] === expected)).toBe(true)
  })

  it('a SOCKS5 proxy is used', async () => {
    const source = await filled()
    const target = await here().database()
    const proxy = await socksProxy()
    await replicate(here(), { source: source.url, target: target.name, proxy: `socks5://${proxy.host}` })
    await expectSame(source, target)
    expect(proxy.connections()).toBeGreaterThan(0)
  })

  it('redirects are followed', async () => {
    const source = await filled()
    const target = await here().database()
    const moved = await FrontServer.start(open().url, ({ url = '', method }, response) => {
      const status = method === 'GET' ? 302 : 307
      response.writeHead(status, { location: `http://${open().host}${url}` }).end()
      return true
    })
    await replicate(here(), { source: `http://${moved.host}/${source.name}`, target: target.name })
    await expectSame(source, target)
  })

  it('contents that can be read once reach a target that has moved', async () => {
    const source = await filled()
    const target = await open().database()
    const moved = await FrontServer.start(open().url, ({ url = '' }, response) => {
      response.writeHead(308, { location: `http://${open().host}${url}` }).end()
      return true
    })
    const { history } = await replicate(here(), {
      source: source.url,
      target: `http://${moved.host}/${target.name}`,
      retries_per_request: 1,
    })
    expect(history[0]).toMatchObject({ docs_written: 3, doc_write_failures: 0 })
    await expectSame(source, target)
  })

  it('redirects to another server are followed without credentials', async () => {
    const source = await filled()
    const elsewhere = await FrontServer.start(open().url)
    const moved = await FrontServer.start(open().url, ({ url = '' }, response) => {
      if (url.includes('_session') || url.startsWith('/_')) return false
      response.writeHead(307, { location: `http://${elsewhere.host}${url}` }).end()
      return true
    })
    const address = `${moved.host}/${source.name}`
    const oauth = { consumer_key: 'c', consumer_secret: 's', token: 't', token_secret: 'u' }
    const endpoints = [
      `http://joe:secret@${address}`,
      { url: `http://${address}`, auth: { oauth } },
      { url: `http://${address}`, headers: { Authorization: 'Basic am9lOnNlY3JldA==', Cookie: 'AuthSession=x' } },
    ]
    for (const endpoint of endpoints) {
      const target = await here().database()
      await replicate(here(), { source: endpoint, target: target.name })
      await expectSame(source, target)
    }
    expect(moved.seen.some(({ headers }) => headers.authorization !== undefined)).toBe(true)
    for (const { headers } of elsewhere.seen) {
      expect(headers).not.toHaveProperty('authorization')
      expect(headers).not.toHaveProperty('cookie')
    }
  })

  it('redirect loops, and redirects to what is not a server, end the replication', async () => {
    const target = await here().database()
    for (const location of ['/db/', 'file:///etc/passwd', 'javascript:1', 'http://', '//[']) {
      const peer = await ScriptedPeer.start(() => status(302, {}, { location }))
      const reply = await post(here(), { source: peer.url, target: target.name })
      expect(reply.status, reply.text).toBe(500)
    }
  })

  it('many kinds of connections do not close those that are in use', async () => {
    const source = await filled()
    const target = await here().database()
    const request = { source: source.url, target: target.name, continuous: true }
    expect((await post(here(), request)).status).toBe(202)
    await until(async () => (await target.get('plain')).status === 200, 15_000)
    for (let i = 0; i < 40; i++) {
      await replicate(here(), {
        source: source.url,
        target: 'others',
        create_target: true,
        connection_timeout: 20_000 + i,
      })
    }
    await source.save('later', {})
    await until(async () => (await target.get('later')).status === 200, 15_000)
    expect((await post(here(), { ...request, cancel: true })).status).toBe(200)
  })

  it('packed replies are unpacked', async () => {
    const source = await filled()
    const target = await here().database()
    const { body } = await source.get('_changes?style=all_docs')
    const front = await FrontServer.start(open().url, ({ url = '' }, response) => {
      if (!url.includes('_changes')) return false
      response.writeHead(200, { 'content-encoding': 'gzip', 'content-type': 'application/json' }).end(gzipSync(body))
      return true
    })
    await replicate(here(), { source: `http://${front.host}/${source.name}`, target: target.name })
    await expectSame(source, target)
  })

  it('certificates are checked where that is wanted', async () => {
    const folder = await temporaryFolder()
    const files = await certificate(folder)
    const secured = await startService({ settings: { ssl: { ...files, port: '0' }, daemons: { httpsd: 'yes' } } })
    const url = secured.urls.find((each) => each.startsWith('https:')) ?? ''
    const checking = await startService({ settings: { replicator: { verify_ssl_certificates: 'true' } } })
    const trusting = await startService({
      settings: { replicator: { verify_ssl_certificates: 'true', ssl_trusted_certificates_file: files.cert_file } },
    })
    const plain = new Client(secured.url)
    onTestFinished(() => plain.close())
    const source = await plain.database()
    await source.save('a', {})
    const outcomes: number[] = []
    for (const service of [checking, trusting]) {
      const client = new Client(service.url)
      const reply = await post(client, {
        source: `${url}${source.name}`,
        target: 'copy',
        create_target: true,
        retries_per_request: 0,
      })
      outcomes.push(reply.status)
      client.close()
    }
    expect(outcomes).toEqual([500, 200])
  })

  it('requests that fail for a while are repeated', async () => {
    const source = await filled()
    const target = await here().database()
    const failures = new Map<string, number>()
    const front = await FrontServer.start(open().url, ({ url = '' }, response) => {
      const path = url.split('?', 1)[0] ?? ''
      const count = failures.get(path) ?? 0
      failures.set(path, count + 1)
      if (count > 0) return false
      if (path.includes('_changes')) response.destroy()
      else
        response.writeHead(path.includes('_bulk_get') ? 200 : 503, { 'content-type': 'application/json' }).end('{"res')
      return true
    })
    await replicate(here(), { source: `http://${front.host}/${source.name}`, target: target.name })
    await expectSame(source, target)
  })
})

describe('a target that fails all the time', () => {
  it.each(['_bulk_docs', 'more'])('ends the replication, and no document counts as refused: %s', async (path) => {
    const source = await here().database()
    await source.save('plain', {})
    await source.put('more/b', Buffer.alloc(200_000, 3), { 'Content-Type': 'image/png' })
    const target = await open().database()
    const front = await FrontServer.start(open().url, ({ url = '' }, response) => {
      if (!url.includes(path)) return false
      response.writeHead(500).end('{"error":"x","reason":"y"}')
      return true
    })
    const body = { source: source.name, target: `http://${front.host}/${target.name}`, retries_per_request: 1 }
    expect((await post(here(), body)).status).toBe(500)
    // Nothing that failed was recorded as done.
    const direct = await replicate(here(), { ...body, target: target.url })
    expect(direct.history[0]).toMatchObject({ doc_write_failures: 0 })
    await expectSame(source, target)
  })
})

describe('servers that can less', () => {
  it('have revisions fetched one by one when there is no _bulk_get', async () => {
    const source = await filled()
    const target = await here().database()
    const front = await FrontServer.start(open().url, ({ url = '' }, response) => {
      if (!url.includes('_bulk_get')) return false
      response.writeHead(404).end('{"error":"not_found","reason":"missing"}')
      return true
    })
    await replicate(here(), { source: `http://${front.host}/${source.name}`, target: target.name })
    await expectSame(source, target)
    expect(front.seen.filter(({ url }) => url.includes('open_revs'))).toHaveLength(3)
  })

  it('have attachments fetched one by one where they send no parts', async () => {
    const source = await filled()
    const front = await FrontServer.start(open().url, ({ url = '', headers }, response) => {
      if (url.includes('_bulk_get')) {
        response.writeHead(501).end('{}')
        return true
      }
      headers.accept = headers.accept?.startsWith('multipart') ? 'application/json' : headers.accept
      return false
    })
    for (const target of [await here().database(), await open().database()]) {
      const name = target.client === here() ? target.name : target.url
      await replicate(here(), { source: `http://${front.host}/${source.name}`, target: name })
      await expectSame(source, target)
    }
  })

  it('have small contents fetched inside of JSON, and larger or packed ones as parts', async () => {
    const source = await open().database()
    for (let i = 0; i < 40; i++) await source.put(`small-${i}/a`, randomBytes(50_000), { 'Content-Type': 'image/png' })
    await source.put('large/a', randomBytes(70_000), { 'Content-Type': 'image/png' })
    await source.put('packed/a', 'a text '.repeat(1000), { 'Content-Type': 'text/plain' })
    const front = await FrontServer.start(open().url, () => false)
    for (const target of [await here().database(), await open().database()]) {
      const name = target.client === here() ? target.name : target.url
      const before = front.seen.length
      await replicate(here(), { source: `http://${front.host}/${source.name}`, target: name })
      await expectSame(source, target)
      const fetched = front.seen.slice(before).filter(({ url }) => url.includes('_bulk_get'))
      // All as JSON first; then two megabytes of contents in some replies; then the parts.
      const withContents = fetched.map(({ url }) => url.includes('attachments=true'))
      expect([withContents[0], withContents[1], withContents.at(-1)]).toEqual([false, true, false])
      expect(fetched.filter(({ headers }) => headers.accept?.startsWith('multipart'))).toHaveLength(1)
    }
  })

  it('have small contents fetched as parts where their JSON has none', async () => {
    const source = await filled()
    await source.put('small/a', randomBytes(5000), { 'Content-Type': 'image/png' })
    const front = await FrontServer.start(open().url, (request) => {
      const { url = '', headers } = request
      if (url.includes('_bulk_get') && headers.accept === 'application/json')
        request.url = url.replace('attachments=true', 'attachments=false')
      return false
    })
    for (const target of [await here().database(), await open().database()]) {
      const name = target.client === here() ? target.name : target.url
      await replicate(here(), { source: `http://${front.host}/${source.name}`, target: name })
      await expectSame(source, target)
    }
  })

  it('are asked again for what they could not send', async () => {
    const source = await filled()
    const target = await here().database()
    const { _rev: rev } = (await source.get('more')).as<{ _rev: string }>()
    const front = await FrontServer.start(open().url, ({ url = '' }, response) => {
      if (!url.includes('_bulk_get')) return false
      const trouble = (id: string, error: string) => ({ id, docs: [{ error: { id, rev, error, reason: 'x' } }] })
      const results = [
        trouble('plain', 'timeout'),
        trouble('with', 'internal_server_error'),
        trouble('more', 'not_found'),
      ]
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ results }))
      return true
    })
    await replicate(here(), { source: `http://${front.host}/${source.name}`, target: target.name })
    const statuses = await Promise.all(['plain', 'with', 'more'].map(async (id) => (await target.get(id)).status))
    expect(statuses).toEqual([200, 200, 404])
  })

  it('have their feeds read to the end, however small their pages are', async () => {
    const source = await open().database()
    for (const id of ['a', 'b', 'c']) await source.save(id, {})
    const { results } = (await source.get('_changes')).as<{ results: { seq: number }[] }>()
    const target = await here().database()
    const front = await FrontServer.start(open().url, ({ url = '' }, response) => {
      const since = new URL(url, 'http://x').searchParams.get('since')
      if (since === null) return false
      const left = results.filter(({ seq }) => seq > Number(since))
      const [first] = left
      const page = { results: first ? [first] : [], last_seq: first?.seq ?? 3, pending: Math.max(0, left.length - 1) }
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(page))
      return true
    })
    await replicate(here(), { source: `http://${front.host}/${source.name}`, target: target.name })
    await expectSame(source, target)
  })

  it('have their sequences passed on untouched', async () => {
    const source = await open().database()
    for (const id of ['a', 'b']) await source.save(id, {})
    const target = await here().database()
    const feeds: Record<string, unknown> = {
      '0': [
        ['12-abc', 'a'],
        [[3, 'xyz'], 'b'],
      ],
      '[3,"xyz"]': [],
    }
    const asked: string[] = []
    const front = await FrontServer.start(open().url, ({ url = '' }, response) => {
      const since = new URL(url, 'http://x').searchParams.get('since')
      if (since === null) return false
      asked.push(since)
      void answerFeed(feeds[since])
      return true

      async function answerFeed(rows: unknown) {
        const list = rows as [unknown, string][]
        const results: object[] = []
        for (const [seq, id] of list) {
          const { _rev: rev } = (await source.get(id)).as<{ _rev: string }>()
          results.push({ seq, id, changes: [{ rev }] })
        }
        const last_seq = list.at(-1)?.[0] ?? JSON.parse(since ?? '0')
        response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ results, last_seq }))
      }
    })
    const body = { source: `http://${front.host}/${source.name}`, target: target.name }
    const first = await replicate(here(), body)
    expect(first.source_last_seq).toEqual([3, 'xyz'])
    expect(first.history[0]).toMatchObject({ recorded_seq: [3, 'xyz'], docs_written: 2 })
    expect((await replicate(here(), body)).no_changes).toBe(true)
    expect(asked).toEqual(['0', '[3,"xyz"]'])
  })
})

describe('documents that cannot be stored here', () => {
  const rev = `1-${'a'.repeat(32)}`
  const deep = `${'['.repeat(1500)}${']'.repeat(1500)}`
  const documents: Record<string, string> = {
    fine: `{"_id":"fine","_rev":"${rev}","n":12345678901234567890}`,
    deep: `{"_id":"deep","_rev":"${rev}","deep":${deep}}`,
    unknown: `{"_id":"unknown","_rev":"${rev}","_unknown":1}`,
  }

  it('count as failures, and the others come over untouched', async () => {
    const source = await open().database()
    const target = await here().database()
    const front = await FrontServer.start(open().url, (request, response) => {
      const url = new URL(request.url ?? '', 'http://x')
      const id = url.pathname.split('/')[2] ?? ''
      const answer = (text: string) => {
        response.writeHead(200, { 'content-type': 'application/json' }).end(text)
        return true
      }
      if (id === '_changes') {
        const results = Object.keys(documents).map((each, i) => ({ seq: i + 1, id: each, changes: [{ rev }] }))
        return answer(JSON.stringify({ results, last_seq: 3 }))
      }
      if (id === '_bulk_get') {
        const results = Object.entries(documents).map(([each, text]) => `{"id":"${each}","docs":[{"ok":${text}}]}`)
        return answer(`{"results":[${results.join(',')}]}`)
      }
      const text = documents[id]
      return text === undefined ? false : answer(`[{"ok":${text}}]`)
    })
    const reply = await replicate(here(), { source: `http://${front.host}/${source.name}`, target: target.name })
    expect(reply.history[0]).toMatchObject({ docs_read: 3, docs_written: 1, doc_write_failures: 2 })
    expect((await target.get('fine')).text).toBe(`${documents.fine}\n`)
  })

  it('are refused where they are larger than allowed', async () => {
    const service = await startService({ settings: { service: { max_document_size: '1000' } } })
    const client = new Client(service.url)
    onTestFinished(() => client.close())
    const source = await open().database()
    await source.save('large', { text: 'x'.repeat(2000) })
    await source.save('small', {})
    const body = { source: source.url, target: 'copy', create_target: true }
    const reply = await replicate(client, body)
    expect(reply.history[0]).toMatchObject({ docs_read: 2, docs_written: 1, doc_write_failures: 1 })
  })
})

/** A proxy that asks for no credentials. */
async function socksProxy(): Promise<{ host: string; connections(): number }> {
  let connections = 0
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => socket.destroy())
    socket.once('data', () => {
      socket.write(Buffer.from([5, 0]))
      socket.once('data', (request) => {
        const host =
          request[3] === 1 ? [...request.subarray(4, 8)].join('.') : request.toString('latin1', 5, 5 + request[4]!)
        const outgoing = connect(request.readUInt16BE(request.length - 2), host, () => {
          connections++
          socket.write(Buffer.from([5, 0, 0, 1, 0, 0, 0, 0, 0, 0]))
          socket.pipe(outgoing).pipe(socket)
        })
        outgoing.on('error', () => socket.destroy())
        sockets.add(outgoing)
      })
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(async () => {
    for (const socket of sockets) socket.destroy()
    await new Promise((resolve) => server.close(resolve))
  })
  const { port } = server.address() as AddressInfo
  return { host: `127.0.0.1:${port}`, connections: () => connections }
}
