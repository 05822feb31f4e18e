import { describe, expect, it } from 'vitest'
import { LineLog } from '../../../src/runtime/log/log.ts'
import { Client, type Reply } from '../../support/client.ts'
import { startService } from '../../support/service.ts'
import { until } from '../../support/until.ts'

type Line = Readonly<Record<string, unknown>>

async function jsonServer(settings: Record<string, Record<string, string>> = {}): Promise<Client> {
  return new Client((await startService({ settings: { ...settings, log: { format: 'json', ...settings.log } } })).url)
}

async function lines(client: Client): Promise<readonly Line[]> {
  const { text } = await client.request('GET', '/_log?bytes=1000000')
  return text
    .trimEnd()
    .split('\n')
    .map((line): Line => JSON.parse(line))
}

const idOf = (reply: Reply) => String(reply.headers['x-service-request-id'])

/** The line of a reply is written when the reply has been sent, so it may come after the client has the reply. */
async function linesOf(client: Client, id: string | undefined, least = 1): Promise<readonly Line[]> {
  let found: readonly Line[] = []
  await until(async () => {
    found = (await lines(client)).filter((line) => line.request_id === id)
    return found.length >= least
  })
  return found
}

describe('a log in JSON', () => {
  it('has one object for each request: the request, its user, the reply and its duration', async () => {
    const client = await jsonServer()
    const reply = await client.request('GET', '/nosuch?a="b"&password=c2VjcmV0')
    expect(await linesOf(client, idOf(reply))).toEqual([
      {
        time: expect.stringMatching(/^\d{4}-.*Z$/),
        level: 'info',
        process: expect.any(Number),
        message: 'GET /nosuch?a="b"&password=… 404',
        request_id: idOf(reply),
        method: 'GET',
        path: '/nosuch?a="b"&password=…',
        status: 404,
        duration_ms: expect.any(Number),
        user: null,
        peer: '127.0.0.1',
      },
    ])
  })

  it('names the user, and the client behind a proxy', async () => {
    const client = await jsonServer({ admins: { ann: 'secret' } })
    const headers = { Authorization: `Basic ${btoa('ann:secret')}`, 'X-Forwarded-For': '203.0.113.7' }
    const reply = await client.request('GET', '/_session', { headers })
    let found: Line | undefined
    await until(async () => {
      const { text } = await client.request('GET', '/_log?bytes=100000', { headers })
      found = text
        .trimEnd()
        .split('\n')
        .map((line): Line => JSON.parse(line))
        .find((line) => line.request_id === idOf(reply))
      return found !== undefined
    })
    expect(found).toMatchObject({ user: 'ann', peer: '203.0.113.7', status: 200 })
  })

  it('has the id in every line about a request', async () => {
    const client = await jsonServer({ log: { level: 'debug' } })
    const reply = await client.request('GET', '/nosuch', { headers: { 'X-Seen': 'this', request_id: 'forged' } })
    const found = await linesOf(client, idOf(reply), 3)
    expect(found.map(({ message }) => message)).toEqual([
      'The headers of a request.',
      'A request was refused.',
      'GET /nosuch 404',
    ])
  })

  it('is switched on and off while the server runs, also for the operator', async () => {
    const told: string[] = []
    const operator = new LineLog('info', { write: (line) => void told.push(line) }, { dated: false })
    const client = new Client((await startService({ log: operator })).url)
    const format = (value: string) => client.request('PUT', '/_config/log/format', { body: JSON.stringify(value) })
    expect((await format('yaml')).status).toBe(400)
    expect((await format('json')).status).toBe(200)
    await client.request('GET', '/_up?first')
    await until(() => told.some((line) => line.startsWith('{') && line.includes('/_up?first')))
    expect((await format('text')).status).toBe(200)
    await client.request('GET', '/_up?second')
    expect(told.some((line) => line.startsWith('[info]') && line.includes('/_up?second'))).toBe(true)
  })
})

describe('the id of a request', () => {
  it('is in the reply, unique, under the header name of the dialect', async () => {
    const client = new Client((await startService({})).url)
    const ids = await Promise.all(
      ['/', '/nosuch', '/_changes', '/_utils/'].map(async (path) => idOf(await client.request('GET', path))),
    )
    for (const id of ids) expect(id).toMatch(/^[0-9a-f]{10}$/)
    expect(new Set(ids).size).toBe(4)
    const later = new Client((await startService({ settings: { httpd: { dialect: '3' } } })).url)
    const { headers } = await later.request('GET', '/')
    expect(headers['x-couch-request-id']).toMatch(/^[0-9a-f]{10}$/)
    expect(headers['x-service-request-id']).toBeUndefined()
  })

  it('is taken from a proxy, when a setting allows it and it is well-formed', async () => {
    const own = new Client((await startService({})).url)
    const trusting = new Client((await startService({ settings: { httpd: { accept_request_id: 'true' } } })).url)
    const ask = async (client: Client, headers: Record<string, string>) =>
      idOf(await client.request('GET', '/', { headers }))
    expect(await ask(own, { 'X-Request-ID': 'mine' })).toMatch(/^[0-9a-f]{10}$/)
    expect(await ask(trusting, { 'X-Request-ID': 'Root=1-67891233-abcdef01' })).toBe('Root=1-67891233-abcdef01')
    expect(await ask(trusting, { 'X-Couch-Request-ID': 'a', 'X-Request-ID': 'b' })).toBe('a')
    expect(await ask(trusting, { 'X-Service-Request-ID': 'c', 'X-Couch-Request-ID': 'a' })).toBe('c')
    for (const bad of ['', 'a b', '"', 'x'.repeat(129), 'é', 'a,b']) {
      expect(await ask(trusting, { 'X-Request-ID': bad }), bad).toMatch(/^[0-9a-f]{10}$/)
    }
  })

  it('is in the lines of a text log too, in dialect 3', async () => {
    const client = new Client((await startService({ dialect: '3' })).url)
    const { headers } = await client.request('GET', '/_up?here')
    const id = headers['x-couch-request-id']
    expect((await client.request('GET', '/_log?bytes=10000')).text).toContain(`/_up?here 200 request_id="${id}"\n`)
  })
})
