import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { Client, expectRefusal } from '../../support/client.ts'
import { startService } from '../../support/service.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { until } from '../../support/until.ts'

async function server(settings: Record<string, Record<string, string>> = {}): Promise<Client> {
  return new Client((await startService({ settings })).url)
}

const tail = (client: Client, query = '') => client.request('GET', `/_log${query}`)
const say = (client: Client, body: unknown) => client.request('POST', '/_log', { body })

describe('GET /_log', () => {
  it.each([true, false])('returns the last bytes, with an offset from the end (in memory: %s)', async (inMemory) => {
    const client = new Client((await startService({ inMemory })).url)
    await say(client, { level: 'error', message: `<${'x'.repeat(2000)}>` })
    const reply = await tail(client, '?bytes=300&offset=20')
    expect(reply.status).toBe(200)
    expect(reply.body.length).toBe(300)
    expect(reply.headers['content-type']).toBe('text/plain;charset=utf-8')
    expect(reply.headers['transfer-encoding']).toBe('chunked')
    expect(reply.headers['content-length']).toBeUndefined()
    expect((await tail(client)).body.length).toBe(1000)
    const all = (await tail(client, '?bytes=1000000')).text
    expect(all).toContain('xxx>\n')
    expect((await tail(client, '?bytes=10&offset=1000000')).text).toBe(all.slice(0, 10))
    expect((await tail(client, '?bytes=0')).text).toBe('')
  })

  it('refuses counts above the limit and invalid numbers', async () => {
    const client = await server()
    expectRefusal(await tail(client, '?bytes=1000001'), 400, 'bad_request', "'bytes' cannot exceed 1000000")
    expect((await tail(client, '?bytes=x')).status).toBe(400)
    expect((await tail(client, '?offset=-1')).status).toBe(400)
    expect((await client.request('PUT', '/_log')).headers.allow).toBe('GET,POST')
  })

  it('is empty where nothing is logged', async () => {
    const client = await server({ log: { level: 'none' } })
    const reply = await tail(client)
    expect([reply.status, reply.text]).toEqual([200, ''])
  })
})

describe('POST /_log', () => {
  it('writes one line of the level', async () => {
    const client = await server()
    const reply = await say(client, { level: 'info', message: 'hello\n[error] forged' })
    expect([reply.status, reply.text]).toEqual([200, '{"ok":true}\n'])
    await say(client, { level: 'debug', message: 'unheard' })
    const lines = (await tail(client, '?bytes=100000')).text.split('\n')
    expect(lines.filter((line) => line.includes('hello'))).toEqual([
      expect.stringMatching(/^\[.+ GMT\] \[info\] \[\d+\] hello\\u000a\[error\] forged$/),
    ])
    expect(lines.some((line) => line.includes('unheard'))).toBe(false)
  })

  it('refuses unknown levels and invalid messages', async () => {
    const client = await server()
    const reply = await say(client, { level: 'loud', message: 'x' })
    expect([reply.status, reply.text]).toEqual([400, `{"error":"Unrecognized log level 'loud'"}\n`])
    expect((await say(client, { message: 'x' })).status).toBe(400)
    expect((await say(client, { level: 'info', message: 5 })).status).toBe(400)
    expectRefusal(await say(client, 'x'), 400, 'bad_request', 'invalid_json')
    expect((await say(client, [])).status).toBe(400)
  })
})

describe('the log', () => {
  it('has a line for each request', async () => {
    const client = await server()
    await client.request('GET', '/nosuch?a=b')
    await client.request('POST', '/x/y', { headers: { 'X-HTTP-Method-Override': 'GET' } })
    const text = (await tail(client, '?bytes=100000')).text
    expect(text).toMatch(/\[info\] \[\d+\] 127\.0\.0\.1 - - GET \/nosuch\?a=b 404\n/)
    expect(text).toMatch(/127\.0\.0\.1 - - POST \/x\/y 404\n/)
  })

  it('names the client behind a proxy on this machine', async () => {
    const client = await server()
    const headers = (value: string) => ({ headers: { 'X-Forwarded-For': value } })
    await client.request('GET', '/_up?a', headers('203.0.113.1, 203.0.113.7'))
    await client.request('GET', '/_up?b', headers('nonsense\u00a0'))
    const text = (await tail(client, '?bytes=100000')).text
    expect(text).toContain('203.0.113.7 - - GET /_up?a 200')
    expect(text).toContain('127.0.0.1 - - GET /_up?b 200')
  })

  it('has no secrets, whatever its level', async () => {
    const client = await server({ log: { level: 'debug' } })
    const secrets = {
      Authorization: 'Basic c2VjcmV0',
      Cookie: 'AuthSession=c2VjcmV0',
      'X-Auth-Service-Token': 'c2VjcmV0',
    }
    await client.request('GET', '/_up?password=c2VjcmV0&x=1&oauth_token=c2VjcmV0', { headers: secrets })
    await client.request('GET', '/x?source=http%3A%2F%2Fann%3Ac2VjcmV0%40host', { headers: { 'X-Seen': 'this' } })
    const text = (await tail(client, '?bytes=100000')).text
    expect(text).not.toContain('c2VjcmV0')
    expect(text).toContain('x=1')
    expect(text).toContain('x-seen="this"')
  })

  it('follows its level, and logs bodies of error replies at the lowest', async () => {
    const client = await server()
    const level = (value: string) => client.request('PUT', '/_config/log/level', { body: JSON.stringify(value) })
    await level('debug')
    await client.request('GET', '/nosuch')
    await level('error')
    await client.request('GET', '/quiet')
    const text = (await tail(client, '?bytes=100000')).text
    expect(text).toContain('no_db_file')
    expect(text).not.toContain('/quiet')
  })

  it('is a file that may be changed, and is rotated when it is full', async () => {
    const dir = await temporaryFolder()
    const client = new Client((await startService({ dir })).url)
    await client.request('GET', '/first')
    await until(async () => (await readFile(join(dir, 'settle.log'), 'utf8')).includes('/first'))
    const put = (key: string, value: string) =>
      client.request('PUT', `/_config/log/${key}`, { body: JSON.stringify(value) })
    expect((await put('file', join(dir, 'other', 'b.log'))).status).toBe(200)
    await client.request('GET', '/second')
    expect((await tail(client)).text).toContain('/second')
    expect(await readFile(join(dir, 'other', 'b.log'), 'utf8')).toContain('/second')
    expect(await readFile(join(dir, 'settle.log'), 'utf8')).not.toContain('/second')
    await put('max_file_size', '100')
    await client.request('GET', '/third')
    await client.request('GET', '/fourth')
    await until(async () => (await readFile(join(dir, 'other', 'b.log.1'), 'utf8').catch(() => '')) !== '')
  })
})
