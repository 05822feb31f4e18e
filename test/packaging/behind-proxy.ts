/** What Settle must do behind a reverse proxy that is configured like one of the examples. */
import { spawn } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { expect, it, onTestFinished } from 'vitest'
import { Client } from '../support/client.ts'
import { startService } from '../support/service.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { until } from '../support/until.ts'

export interface ProxyPlace {
  /** `host:port` of Settle. */
  readonly server: string
  /** Where the proxy listens. */
  readonly port: number
  /** All files of the proxy are below it. */
  readonly folder: string
}

export interface ProxyCommand {
  readonly command: string
  readonly args: readonly string[]
  readonly environment?: Readonly<Record<string, string>>
}

/** Writes the configuration of a proxy; the command runs it in the foreground. */
export type PrepareProxy = (place: ProxyPlace) => Promise<ProxyCommand>

interface ProxiedServer {
  readonly direct: Client
  readonly through: Client
}

async function startBehind(prepare: PrepareProxy): Promise<ProxiedServer> {
  const direct = new Client((await startService({ settings: { httpd: { accept_request_id: 'true' } } })).url)
  const place = { server: direct.host, port: await freePort(), folder: await temporaryFolder() }
  const { command, args, environment } = await prepare(place)
  const proxy = spawn(command, args, { stdio: ['ignore', 'ignore', 'pipe'], env: { ...process.env, ...environment } })
  const ended = once(proxy, 'close')
  let complaints = ''
  proxy.stderr.on('data', (piece: Buffer) => {
    complaints += piece
  })
  onTestFinished(async () => {
    proxy.kill('SIGKILL')
    await ended
  })
  const through = new Client(`http://127.0.0.1:${place.port}/`)
  await until(async () => {
    if (proxy.exitCode !== null) throw new Error(`${command} ended with ${proxy.exitCode}. ${complaints}`)
    return (await through.request('GET', '/_up').catch(() => undefined))?.status === 200
  })
  return { direct, through }
}

function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const address = server.address()
      server.close(() => resolve(typeof address === 'object' && address ? address.port : 0))
    })
  })
}

export function worksBehind(prepare: PrepareProxy): void {
  it('has names with slashes, long queries and the ids of requests', async () => {
    const { direct, through } = await startBehind(prepare)
    expect((await through.request('PUT', '/a%2Fb')).status).toBe(201)
    expect((await direct.request('GET', '/_all_dbs')).json).toContain('a/b')
    expect((await through.request('PUT', '/a%2Fb/x%2Fy%20z', { body: {} })).status).toBe(201)
    expect((await through.request('GET', '/a%2Fb/x%2Fy%20z')).json).toMatchObject({ _id: 'x/y z' })
    const keys = encodeURIComponent(JSON.stringify(['k'.repeat(20_000)]))
    expect((await through.request('GET', `/a%2Fb/_all_docs?keys=${keys}`)).status).toBe(200)
    expect((await through.request('GET', '/')).headers['x-service-request-id']).toMatch(/^[0-9a-f-]{32,36}$/)
  })

  it('knows the address that clients use, whatever headers they send', async () => {
    const { through } = await startBehind(prepare)
    await through.request('PUT', '/db')
    const forged = {
      'X-Forwarded-For': '192.0.2.1',
      'X-Forwarded-Host': 'forged.example',
      'X-Forwarded-Proto': 'https',
      'X-Forwarded-Ssl': 'on',
    }
    for (const [id, headers] of [
      ['plain', {}],
      ['forged', forged],
    ] as const) {
      const { headers: answered } = await through.request('PUT', `/db/${id}`, { body: {}, headers })
      expect(answered.location).toBe(`${through.url.origin}/db/${id}`)
    }
    const log = (await through.request('GET', '/_log?bytes=100000')).text
    expect(log).toMatch(/127\.0\.0\.1 - - PUT \/db\/forged 201/)
  })

  it('passes feeds on at once, and while they are silent', async () => {
    const { direct, through } = await startBehind(prepare)
    await direct.request('PUT', '/db')
    for (const feed of ['continuous', 'eventsource']) {
      const ending = new AbortController()
      const url = new URL(`/db/_changes?feed=${feed}&heartbeat=200&since=now&include_docs=true`, through.url)
      const reply = await fetch(url, { signal: ending.signal })
      const reader = reply.body?.pipeThrough(new TextDecoderStream()).getReader()
      let text = ''
      // A heartbeat first: what comes then was not in a buffer.
      text += (await reader?.read())?.value
      await direct.request('PUT', `/db/${feed}`, { body: { here: feed } })
      while (!text.includes(`"here":"${feed}"`)) text += (await reader?.read())?.value
      ending.abort()
    }
    // Settle notices that the readers are gone: the proxy closes its side too.
    await until(async () => (await inProgress(direct)) === 1)
    const { update_seq } = (await direct.request('GET', '/db')).as<{ update_seq: number }>()
    const polled = through.request('GET', `/db/_changes?feed=longpoll&since=${update_seq}`)
    await direct.request('PUT', '/db/polled', { body: {} })
    expect((await polled).text).toContain('"polled"')
  })

  it('takes uploads as they come, larger than a proxy would by itself', async () => {
    const { direct, through } = await startBehind(prepare)
    await direct.request('PUT', '/db')
    const bytes = randomBytes(8 * 1024 * 1024)
    const digest = createHash('md5').update(bytes).digest('base64')
    const put = await through.request('PUT', '/db/doc/file.bin', {
      body: bytes,
      headers: { 'Content-Type': 'application/octet-stream' },
    })
    expect(put.status).toBe(201)
    expect((await direct.request('GET', '/db/doc')).text).toContain(`md5-${digest}`)
    expect((await through.request('GET', '/db/doc/file.bin')).body.equals(bytes)).toBe(true)
    const part = await through.request('GET', '/db/doc/file.bin', { headers: { Range: 'bytes=100-199' } })
    expect([part.status, part.body.equals(bytes.subarray(100, 200))]).toEqual([206, true])
    // Clients that may not write are refused before the body is sent: the first bytes reach Settle before the others are sent.
    const connection = await through.open()
    connection.write(`PUT /db/doc2/slow.bin HTTP/1.1\r\nHost: ${through.host}\r\nContent-Length: 200000\r\n\r\n`)
    connection.write(Buffer.alloc(100_000))
    await until(async () => (await inProgress(direct)) > 1)
    connection.write(Buffer.alloc(100_000))
    await until(async () => (await direct.request('HEAD', '/db/doc2/slow.bin')).status === 200)
    connection.end()
  })
}

/** The request that asks is one of them. */
async function inProgress(direct: Client): Promise<number> {
  const { text } = await direct.request('GET', '/_node/_local/_prometheus')
  return Number(/^settle_requests_in_progress (\d+)$/m.exec(text)?.[1])
}
