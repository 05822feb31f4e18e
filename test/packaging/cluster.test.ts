/**
 * The example of a cluster: its nginx in front of three servers on one PostgreSQL. What needs containers is not started here;
 * its compose file is read. Skipped where nginx or PostgreSQL is missing.
 */
import { spawn, spawnSync } from 'node:child_process'
import { readFile, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { Client } from '../support/client.ts'
import { findPostgres, sharedPostgres } from '../support/postgres.ts'
import { startService } from '../support/service.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { until } from '../support/until.ts'

const EXAMPLE = join(import.meta.dirname, '../../examples/cluster')
const isInstalled = spawnSync('nginx', ['-v']).status === 0 && !('missing' in findPostgres())

/** The example as it is, but for the addresses. */
async function cluster() {
  const engine = (await sharedPostgres()).address()
  const settings = {
    admins: { admin: 'secret' },
    // The settings of the compose file that all servers have in common.
    service_httpd_auth: { secret: '0123456789abcdef0123456789abcdef' },
    service: { engine_lease: '3000' },
  }
  const services = await Promise.all(
    Array.from({ length: 3 }, async () => startService({ dir: await temporaryFolder(), engine, settings })),
  )
  const folder = await temporaryFolder()
  const port = await freePort()
  let server = (await readFile(join(EXAMPLE, 'nginx.conf'), 'utf8')).replace('listen 80;', `listen 127.0.0.1:${port};`)
  for (const [i, { url }] of services.entries()) server = server.replace(`settle-${i + 1}:5984`, new URL(url).host)
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    (name) => `${name}_temp_path ${folder}/${name};`,
  )
  const file = join(folder, 'nginx.conf')
  await writeFile(
    file,
    `daemon off; error_log ${folder}/error.log; pid ${folder}/pid;
events { worker_connections 256; }
http { access_log off; ${temporary.join(' ')}
${server} }`,
  )
  const nginx = spawn('nginx', ['-c', file, '-p', folder], { stdio: 'ignore' })
  const ended = new Promise((resolve) => nginx.once('exit', resolve))
  onTestFinished(async () => {
    nginx.kill('SIGTERM')
    await ended
  })
  const balancer = new Client(`http://127.0.0.1:${port}/`)
  await until(async () => (await balancer.request('GET', '/_up').catch(() => undefined))?.status === 200)
  return { balancer, services }
}

function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const address = server.address()
      server.close(() => resolve(typeof address === 'object' && address ? address.port : 0))
    })
  })
}

const AUTHORIZATION = { Authorization: `Basic ${Buffer.from('admin:secret').toString('base64')}` }

describe.skipIf(!isInstalled)('the example of a cluster', () => {
  it('answers as one server, whichever of them gets a request, and continues without one of them', async () => {
    const { balancer, services } = await cluster()
    const headers = AUTHORIZATION
    expect((await balancer.request('PUT', '/db', { headers })).status).toBe(201)
    for (let i = 0; i < 12; i++) {
      expect((await balancer.request('PUT', `/db/doc-${i}`, { headers, body: { i } })).status).toBe(201)
      expect((await balancer.request('GET', `/db/doc-${i}`, { headers })).json).toMatchObject({ i })
    }
    const user = { name: 'jan', password: 'apple', roles: [], type: 'user' }
    const saved = await balancer.request('PUT', '/_users/org.couchdb.user:jan', { headers, body: user })
    expect(saved.status, saved.text).toBe(201)
    const login = await balancer.request('POST', '/_session', { body: { name: 'jan', password: 'apple' } })
    const [cookie = ''] = login.headers['set-cookie'] ?? []
    for (const { url } of services) {
      const client = new Client(url)
      onTestFinished(() => client.close())
      const session = await client.request('GET', '/_session', { headers: { Cookie: cookie.split(';')[0] ?? '' } })
      expect(session.json).toMatchObject({ userCtx: { name: 'jan' } })
    }
    await services[1]!.close()
    for (let i = 0; i < 12; i++) {
      expect((await balancer.request('GET', `/db/doc-${i}`, { headers })).status).toBe(200)
    }
    // A write that met the server that is gone is not sent again by itself.
    for (let i = 12; i < 18; i++) {
      await until(async () => {
        const { status } = await balancer.request('PUT', `/db/doc-${i}`, { headers, body: { i } })
        return status === 201 || status === 409
      })
    }
    expect((await balancer.request('GET', '/db', { headers })).json).toMatchObject({ doc_count: 18 })
  })
})

describe('the compose file of the cluster', () => {
  it('starts what the load balancer and the documentation name', async () => {
    const compose = await readFile(join(EXAMPLE, 'compose.yaml'), 'utf8')
    const nginx = await readFile(join(EXAMPLE, 'nginx.conf'), 'utf8')
    const upstreams = [...nginx.matchAll(/server (settle-\d):5984/g)].map(([, name]) => name)
    expect(upstreams).toEqual(['settle-1', 'settle-2', 'settle-3'])
    for (const name of upstreams) expect(compose).toMatch(new RegExp(`^ {2}${name}:\\n {4}<<: \\*settle$`, 'm'))
    const docker = await readFile(join(EXAMPLE, '../docker/compose.yaml'), 'utf8')
    // What one server is started with holds for each of them.
    for (const [line] of docker.matchAll(/^ {4}(?:build|read_only|cap_drop|security_opt|stop_grace_period): .*$/gm)) {
      expect(compose).toContain(line.trim())
    }
    const variables = [...compose.matchAll(/^ {4}(SETTLE_\w+):/gm)].map(([, name]) => name)
    expect(variables).toEqual([
      'SETTLE_ENGINE',
      'SETTLE_ADMINS__ADMIN',
      'SETTLE_SERVICE_HTTPD_AUTH__SECRET',
      'SETTLE_LOG__FORMAT',
    ])
  })
})
