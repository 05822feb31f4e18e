/** The example for nginx, tried with a real one. Skipped where there is none: `apt-get install nginx-light`. */
import { spawn, spawnSync } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { Client } from '../support/client.ts'
import { startService } from '../support/service.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { until } from '../support/until.ts'

const EXAMPLE = join(import.meta.dirname, '../../examples/nginx/settle.conf')
const isInstalled = spawnSync('nginx', ['-v']).status === 0

/** The example as it is, but for the addresses and without its certificates. */
async function behindNginx(): Promise<{ readonly direct: Client; readonly through: Client }> {
  const direct = new Client((await startService({ settings: { httpd: { accept_request_id: 'true' } } })).url)
  const folder = await temporaryFolder()
  const port = await freePort()
  const server = (await readFile(EXAMPLE, 'utf8'))
    .replace('server 127.0.0.1:5984;', `server ${direct.host};`)
    .replace('listen 443 ssl;', `listen 127.0.0.1:${port};`)
    .replace(/^ *ssl_certificate.*$/gm, '')
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    (name) => `${name}_temp_path ${folder}/${name};`,
  )
  const config = `daemon off; error_log ${folder}/error.log; pid ${folder}/pid;
events { worker_connections 256; }
http { access_log off; ${temporary.join(' ')}
${server} }`
  const file = join(folder, 'nginx.conf')
  await writeFile(file, config)
  const nginx = spawn('nginx', ['-c', file, '-p', folder], { stdio: 'ignore' })
  const ended = new Promise((resolve) => nginx.once('exit', resolve))
  onTestFinished(async () => {
    nginx.kill('SIGTERM')
    await ended
  })
  const through = new Client(`http://127.0.0.1:${port}/`)
  await until(async () => (await through.request('GET', '/_up').catch(() => undefined))?.status === 200)
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

describe.skipIf(!isInstalled)('Settle behind nginx', () => {
  it('has names with slashes, long queries and the ids of requests', async () => {
    const { direct, through } = await behindNginx()
    expect((await through.request('PUT', '/a%2Fb')).status).toBe(201)
    expect((await direct.request('GET', '/_all_dbs')).json).toContain('a/b')
    expect((await through.request('PUT', '/a%2Fb/x%2Fy%20z', { body: {} })).status).toBe(201)
    expect((await through.request('GET', '/a%2Fb/x%2Fy%20z')).json).toMatchObject({ _id: 'x/y z' })
    const keys = encodeURIComponent(JSON.stringify(['k'.repeat(20_000)]))
    expect((await through.request('GET', `/a%2Fb/_all_docs?keys=${keys}`)).status).toBe(200)
    expect((await through.request('GET', '/')).headers['x-service-request-id']).toMatch(/^[0-9a-f]{32}$/)
    expect((await through.request('PUT', '/a%2Fb/new', { body: {} })).headers.location).toBe(
      `${through.url.origin}/a%2Fb/new`,
    )
  })

  it('passes feeds on at once, and while they are silent', async () => {
    const { direct, through } = await behindNginx()
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
    const { update_seq } = (await direct.request('GET', '/db')).as<{ update_seq: number }>()
    const polled = through.request('GET', `/db/_changes?feed=longpoll&since=${update_seq}`)
    await direct.request('PUT', '/db/polled', { body: {} })
    expect((await polled).text).toContain('"polled"')
  })

  it('takes uploads as they come, larger than nginx would by itself', async () => {
    const { direct, through } = await behindNginx()
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
    // Who may not write is told before the body is sent: the first bytes reach Settle while the rest is not there yet.
    const connection = await through.open()
    connection.write('PUT /db/doc2/slow.bin HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\n')
    connection.write(Buffer.alloc(100_000))
    const inProgress = async () =>
      Number(
        /^settle_requests_in_progress (\d+)$/m.exec(
          (await direct.request('GET', '/_node/_local/_prometheus')).text,
        )?.[1],
      )
    await until(async () => (await inProgress()) > 1)
    connection.write(Buffer.alloc(100_000))
    await until(async () => (await direct.request('HEAD', '/db/doc2/slow.bin')).status === 200)
    connection.end()
  })
})
