/** Resources that the operator adds: programs that answer below a database, and other servers that do. */

import { writeFile } from 'node:fs/promises'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { describe, expect, it, onTestFinished } from 'vitest'
import { Client, expectRefusal, rawRequest } from '../../support/client.ts'
import { startService } from '../../support/service.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { HAS_SEVERAL_SERVERS } from '../../support/test-service.ts'

/** A program that answers each line with what `answer(request)` says; `say` writes any line. */
async function program(answer: string): Promise<string> {
  const file = join(await temporaryFolder(), 'program.cjs')
  const text = `
    const { writeSync } = require('node:fs')
    const say = (line) => writeSync(1, line + '\\n')
    const answer = ${answer}
    require('node:readline').createInterface(process.stdin)
      .on('line', (line) => { const reply = answer(JSON.parse(line)); if (reply) say(JSON.stringify(reply)) })`
  await writeFile(file, text)
  return `"${process.execPath}" "${file}"`
}

const HANDLER = '{service_httpd_external, handle_external_req, <<"test">>}'

async function start(answer: string, more: Record<string, Record<string, string>> = {}): Promise<Client> {
  const settings = {
    external: { test: await program(answer) },
    httpd_db_handlers: { _test: HANDLER, _external: '{couch_httpd_external, handle_external_req}' },
    ...more,
  }
  const service = await startService({ settings })
  const client = new Client(service.url)
  onTestFinished(() => client.close())
  await client.request('PUT', '/db')
  return client
}

describe('a program of external', () => {
  it('receives the request, and its answer is the reply', async () => {
    const client = await start(`(request) => ({ code: 203, headers: { 'X-Own': 'yes' }, json: request })`)
    const reply = await client.request('PUT', '/db/_test/a%2Fb?key=[1]&x=y', {
      body: 'hello',
      headers: { Cookie: 'a=b' },
    })
    expect([reply.status, reply.headers['x-own'], reply.headers['content-type']]).toEqual([
      203,
      'yes',
      'application/json',
    ])
    expect(reply.json).toMatchObject({
      info: { db_name: 'db' },
      id: null,
      method: 'PUT',
      path: ['db', '_test', 'a/b'],
      raw_path: '/db/_test/a%2Fb?key=[1]&x=y',
      query: { key: [1], x: 'y' },
      body: 'hello',
      cookie: { a: 'b' },
      userCtx: { db: 'db', name: null, roles: ['_admin'] },
      secObj: {},
    })
  })

  it('may answer text or bytes', async () => {
    const client = await start(`({ query }) => query.base64 ? { base64: 'AAEC' } : { body: '<b>ü</b>' }`)
    const text = await client.request('GET', '/db/_test')
    expect([text.status, text.text, text.headers['content-type']]).toEqual([
      200,
      '<b>ü</b>',
      'text/html; charset=utf-8',
    ])
    const bytes = await client.request('GET', '/db/_test?base64=1')
    expect([...bytes.body]).toEqual([0, 1, 2])
  })

  it('is named by the path when its handler names none', async () => {
    const client = await start(`({ path }) => ({ json: path })`)
    expect((await client.request('GET', '/db/_external/test/x')).json).toEqual(['db', '_external', 'test', 'x'])
    const none = await client.request('GET', '/db/_external')
    expectRefusal(none, 404, 'external_server_error', 'No server name specified.')
    const unknown = await client.request('GET', '/db/_external/other')
    expectRefusal(unknown, 404, 'external_server_error', 'No server configured for other.')
  })

  it('is for members of the database', async () => {
    const client = await start(`({ userCtx }) => ({ json: userCtx })`)
    expect((await client.request('GET', '/none/_test')).status).toBe(404)
    await client.request('PUT', '/db/_security', { body: { members: { names: ['mia'], roles: [] } } })
    await client.request('PUT', '/_config/admins/root', { body: '"top"' })
    const refused = await client.request('GET', '/db/_test')
    expectRefusal(refused, 401, 'unauthorized', 'You are not authorized to access this db.')
    const headers = { Authorization: `Basic ${btoa('root:top')}` }
    expect((await client.request('GET', '/db/_test', { headers })).json).toMatchObject({ name: 'root' })
  })

  // Each server has a process of it.
  it.skipIf(HAS_SEVERAL_SERVERS)('keeps running between requests, and answers them in order', async () => {
    const client = await start(`({ query }) => ({ json: [process.pid, query.n] })`)
    const replies = await Promise.all([1, 2, 3].map((n) => client.request('GET', `/db/_test?n=${n}`)))
    const answers = replies.map((reply) => reply.as<[number, string]>())
    expect(answers.map(([, n]) => n)).toEqual(['1', '2', '3'])
    expect(new Set(answers.map(([pid]) => pid)).size).toBe(1)
  })

  it.each([
    ['ends', 'process.exit(4)', 'os_process_error', '{exit_status,4}'],
    [
      'writes what is no JSON',
      `say('garbage')`,
      'external_response_error',
      'Invalid data from external server: garbage',
    ],
    ['answers with a list', `say('[1]')`, 'external_response_error', 'Invalid data from external server: [1]'],
  ])('that %s fails the request, and is started again for the next', async (_, misdeed, error, reason) => {
    const client = await start(`({ query }) => { if (query.bad) ${misdeed}; else return { json: process.pid } }`)
    const before = (await client.request('GET', '/db/_test')).text
    expectRefusal(await client.request('GET', '/db/_test?bad=1'), 500, error, reason)
    const after = await client.request('GET', '/db/_test')
    expect(after.status).toBe(200)
    // Each of several servers has a process of it.
    if (!HAS_SEVERAL_SERVERS) expect(after.text).not.toBe(before)
  })

  it('may not answer with unknown members', async () => {
    const client = await start(`() => ({ status: 200 })`)
    const reply = await client.request('GET', '/db/_test')
    expect([reply.status, reply.json]).toEqual([
      500,
      { error: 'external_response_error', reason: 'Invalid data from external server: {"status":200}' },
    ])
  })

  it('is killed when it does not answer in time', async () => {
    const client = await start(`({ query }) => query.silent ? undefined : { json: process.pid }`)
    const before = (await client.request('GET', '/db/_test')).text
    await client.request('PUT', '/_config/service/os_process_timeout', { body: '"100"' })
    const silent = client.request('GET', '/db/_test?silent=1')
    expectRefusal(await silent, 500, 'os_process_error', 'OS process timed out.')
    await client.request('PUT', '/_config/service/os_process_timeout', { body: '"10000"' })
    const after = await client.request('GET', '/db/_test')
    expect(after.status).toBe(200)
    if (!HAS_SEVERAL_SERVERS) expect(after.text).not.toBe(before)
  })

  it('is never one that was configured over HTTP', async () => {
    const client = await start(`() => ({ body: 'given' })`)
    const command = await program(`() => ({ body: 'chosen' })`)
    await client.request('PUT', '/_config/external/test', { body: JSON.stringify(command) })
    const reply = await client.request('GET', '/db/_test')
    expectRefusal(reply, 404, 'external_server_error', 'No server configured for test.')
    await client.request('PUT', '/_config/httpd_db_handlers/_other', { body: JSON.stringify(HANDLER) })
    expect((await client.request('GET', '/db/_other')).json).toMatchObject({ error: 'not_found' })
  })

  it('cannot take the place of a resource', async () => {
    const client = await start(`() => ({ body: 'mine' })`, { httpd_db_handlers: { _all_docs: HANDLER } })
    expect((await client.request('GET', '/db/_all_docs')).json).toMatchObject({ total_rows: 0 })
  })
})

interface Asked {
  readonly method: string | undefined
  readonly url: string | undefined
  readonly headers: IncomingMessage['headers']
  readonly body: string
}

/** Another server: it returns the request that it got, or does what the path says. */
async function otherServer(): Promise<string> {
  const server = createServer(async (request, response) => {
    const body = await text(request).catch(() => undefined)
    // Whoever asked is gone.
    if (body === undefined) return
    if (request.url?.includes('moved')) {
      response.writeHead(302, { Location: `http://${request.headers.host}/app/there` }).end()
      return
    }
    if (request.url?.includes('broken')) {
      response.writeHead(200, { 'Content-Length': '100' }).write('some', () => response.destroy())
      return
    }
    const { method, url, headers } = request
    const asked: Asked = { method, url, headers, body }
    const headed = { 'X-Other': 'yes', 'Content-Type': 'text/x-test', 'Set-Cookie': ['a=1; Path=/', 'b=2'] }
    response.writeHead(207, headed).end(JSON.stringify(asked))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

async function startProxy(url: string): Promise<Client> {
  const value = `{service_httpd_proxy, handle_proxy_req, <<"${url}">>}`
  const service = await startService({ settings: { httpd_global_handlers: { _there: value } } })
  const client = new Client(service.url)
  onTestFinished(() => client.close())
  return client
}

describe('a path that is proxied to another server', () => {
  it('forwards the request and the reply', async () => {
    const client = await startProxy(`${await otherServer()}/app/`)
    const options = { body: 'x'.repeat(300_000), headers: { 'X-Mine': 'yes', 'Content-Type': 'text/plain' } }
    const reply = await client.request('PUT', '/_there/a%2Fb/c?d=e%20f', options)
    expect([reply.status, reply.headers['x-other'], reply.headers['content-type']]).toEqual([207, 'yes', 'text/x-test'])
    expect(reply.headers['set-cookie']).toEqual(['a=1; Path=/', 'b=2'])
    const asked = reply.as<Asked>()
    expect(asked).toMatchObject({ method: 'PUT', url: '/app/a%2Fb/c?d=e%20f', body: options.body })
    expect(asked.headers).toMatchObject({
      'x-mine': 'yes',
      'x-forwarded-host': client.host,
      'x-forwarded-proto': 'http',
    })
    expect((await client.request('GET', '/_there')).as<Asked>()).toMatchObject({ method: 'GET', url: '/app/' })
    expect((await client.request('HEAD', '/_there/x')).status).toBe(207)
  })

  it('rewrites Location headers', async () => {
    const client = await startProxy(`${await otherServer()}/app`)
    const reply = await client.request('GET', '/_there/moved')
    expect([reply.status, reply.headers.location]).toEqual([302, `http://${client.host}/_there/there`])
  })

  it.each([
    '/_there/../x',
    '/_there/%2e%2e/x',
    '/_there/a/..',
    '/_there/%2E./x',
    '/_there/a%2f..%2fx',
    '/_there/..\\x',
  ])('does not resolve dot segments: %s', async (path) => {
    const client = await startProxy(`${await otherServer()}/app`)
    expectRefusal(await client.request('GET', path), 400, 'bad_request', 'A path must not lead upwards.')
  })

  it('reports that the server is unreachable, or aborts where the other server does', async () => {
    const nowhere = await startProxy('http://127.0.0.1:1/')
    expect((await nowhere.request('GET', '/_there')).json).toMatchObject({ error: 'bad_gateway' })
    const client = await startProxy(await otherServer())
    await expect(client.request('GET', '/_there/broken')).rejects.toThrow()
    expect((await client.request('GET', '/_there')).status).toBe(207)
  })

  it('is aborted with its client, and continues for others', async () => {
    const client = await startProxy(await otherServer())
    const head = ['PUT /_there/x HTTP/1.1', `Host: ${client.host}`, 'Content-Length: 1000000']
    for (let i = 0; i < 5; i++) {
      const connection = await client.open()
      connection.write(rawRequest(head, 'x'.repeat(100_000)))
      connection.end()
    }
    expect((await client.request('GET', '/_there')).status).toBe(207)
  })

  it('ends when it is a loop', async () => {
    const first = await startProxy('http://127.0.0.1:1/')
    const value = `{service_httpd_proxy, handle_proxy_req, <<"${first.url}_round">>}`
    await first.request('PUT', '/_config/httpd_global_handlers/_round', { body: JSON.stringify(value) })
    // Set over HTTP it counts for nothing.
    expect((await first.request('GET', '/_round')).json).toMatchObject({ error: 'illegal_database_name' })
    const headers = { Via: Array.from({ length: 6 }, () => '1.1 settle').join(', ') }
    expect((await first.request('GET', '/_there', { headers })).json).toMatchObject({ error: 'loop_detected' })
  })
})
