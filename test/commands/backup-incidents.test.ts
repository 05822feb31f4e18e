/** Backups as operators meet them: databases that come and go, odd names, readers that hang up, servers of another kind. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import type { Service } from '../../src/service.ts'
import { startService } from '../support/service.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { contentsOf } from './compare-databases.ts'
import { runSettle } from './run-settle.ts'

async function send(service: Service, method: string, path: string, body?: unknown) {
  const headers = { 'Content-Type': 'application/json' }
  const text = body === undefined ? {} : { body: JSON.stringify(body) }
  const reply = await fetch(`${service.url}${path}`, { method, headers, ...text })
  if (!reply.ok) throw new Error(`${method} ${path}: ${reply.status} ${await reply.text()}`)
  return JSON.parse(await reply.text())
}

/** A server before another one; `answers` may answer a request itself. */
async function between(target: Service, answers: (path: string) => Promise<object | undefined>): Promise<string> {
  const server = createServer(async (request, reply) => {
    const path = request.url ?? ''
    const own = await answers(path)
    if (own) {
      reply.writeHead(200, { 'Content-Type': 'application/json' }).end(JSON.stringify(own))
      return
    }
    const answer = await fetch(new URL(path, target.url))
    reply.writeHead(answer.status).end(Buffer.from(await answer.arrayBuffer()))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  const address = server.address()
  return `http://127.0.0.1:${typeof address === 'object' && address ? address.port : 0}/`
}

describe('settle backup', () => {
  it.each(['a folder', 'a stream'])('to %s leaves a database out that is deleted meanwhile', async (kind) => {
    const source = await startService()
    for (const name of ['a', 'gone', 'z']) await send(source, 'PUT', name)
    const to = await temporaryFolder()
    const first = ['backup', '--to', to, '--url', source.url]
    expect(await runSettle(first)).toMatchObject({ code: 0 })
    const url = await between(source, async (path) => {
      if (path.startsWith('/gone/_backup')) await send(source, 'DELETE', 'gone')
      return undefined
    })
    const { code, out } = await runSettle(['backup', '--to', kind === 'a stream' ? '-' : to, '--url', url])
    expect(code).toBe(0)
    const target = await startService()
    const from = kind === 'a stream' ? ['-'] : [to]
    const restored = await runSettle(['restore', '--url', target.url, '--from', ...from], { input: out })
    expect(restored).toMatchObject({ code: 0 })
    expect(await send(target, 'GET', '_all_dbs')).toEqual(await send(source, 'GET', '_all_dbs'))
  })

  it.each([
    [503, 'service_unavailable', 2],
    [500, 'commit_failed', 2],
    [500, 'file_corrupted', 1],
  ])('of a server that answers %d %s ends with %d', async (status, error, expected) => {
    const server = createServer((_, reply) => {
      reply.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify({ error, reason: 'So.' }))
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => void server.close())
    const address = server.address()
    const url = `http://127.0.0.1:${typeof address === 'object' && address ? address.port : 0}/`
    const { code, err } = await runSettle(['backup', '--to', await temporaryFolder(), '--url', url])
    expect([code, err]).toEqual([expected, expect.stringContaining(`${status} ${error}. So.`)])
  })

  it('reports that a server is not a Settle, instead of saving nothing', async () => {
    const server = createServer((request, reply) => {
      const isDatabase = request.url === '/a'
      const body = request.url === '/_all_dbs' ? ['a'] : isDatabase ? { db_name: 'a' } : { error: 'not_found' }
      const status = request.url === '/a/_backup' ? 404 : 200
      reply.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify(body))
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => void server.close())
    const address = server.address()
    const url = `http://127.0.0.1:${typeof address === 'object' && address ? address.port : 0}/`
    for (const to of [await temporaryFolder(), '-']) {
      const { code, err } = await runSettle(['backup', '--to', to, '--url', url])
      expect([code, err]).toEqual([1, expect.stringMatching(/not a Settle/)])
    }
  })

  it('begins a new chain with --full also after an interrupted incremental one', async () => {
    const source = await startService()
    await send(source, 'PUT', 'a')
    await send(source, 'PUT', 'a/one', {})
    const to = await temporaryFolder()
    const args = ['backup', '--to', to, '--url', source.url, '--db', 'a']
    await runSettle(args)
    await send(source, 'PUT', 'a/two', {})
    await runSettle(args)
    // As a run leaves it that ends before its last frame.
    const folder = join(to, 'databases/a.1')
    const segment = await readFile(join(folder, '000002.frames'))
    const manifest = JSON.parse(await readFile(join(folder, 'manifest.json'), 'utf8'))
    await writeFile(join(folder, '000003.frames.partial'), segment.subarray(0, segment.indexOf('end ')))
    manifest.segments.pop()
    await writeFile(join(folder, 'manifest.json'), JSON.stringify(manifest))
    expect(await runSettle([...args, '--full'])).toMatchObject({ code: 0 })
    expect((await readdir(join(to, 'databases'))).toSorted()).toEqual(['a.1', 'a.2'])
  })

  it('ends with a message when its output is closed', async () => {
    const source = await startService()
    await send(source, 'PUT', 'a')
    for (let i = 0; i < 4; i++) await send(source, 'PUT', `a/doc-${i}`, { text: 'x'.repeat(500_000) })
    const cli = join(import.meta.dirname, '../../src/cli.ts')
    const child = spawn(process.execPath, [cli, 'backup', '--to', '-', '--url', source.url, '--db', 'a'])
    let err = ''
    child.stderr.on('data', (piece: Buffer) => {
      err += piece
    })
    child.stdout.once('data', () => child.stdout.destroy())
    const [code] = await once(child, 'close')
    expect([code, err]).toEqual([2, expect.stringMatching(/^settle backup: Standard output cannot be written/m)])
    expect(err).not.toMatch(/at .*\.ts:/)
  })
})

describe.each(['1.6', '3'] as const)('settle restore in dialect %s', (dialect) => {
  it('restores databases with odd names, partitions, and system databases', async () => {
    const source = await startService({ dialect })
    const long = `l${'o/n-g+'.repeat(166)}`.slice(0, 1000)
    const names = ['a/b', 'a$()+-', long, 'parted', '_users', '_replicator']
    for (const name of names.filter((each) => !each.startsWith('_'))) {
      await send(source, 'PUT', `${encodeURIComponent(name)}${name === 'parted' ? '?partitioned=true' : ''}`)
    }
    for (const [i, name] of names.entries()) {
      const path = encodeURIComponent(name)
      if (name === '_users')
        await send(source, 'PUT', `${path}/org.couchdb.user:ann`, {
          _id: 'org.couchdb.user:ann',
          name: 'ann',
          type: 'user',
          roles: [],
          password: 'hers',
        })
      else if (name === '_replicator')
        await send(source, 'PUT', `${path}/job`, { source: 'http://x.invalid/', target: 'y' })
      else await send(source, 'PUT', `${path}/p:${i}`, { i })
    }
    const to = await temporaryFolder()
    expect(await runSettle(['backup', '--to', to, '--url', source.url])).toMatchObject({ code: 0 })
    const target = await startService({ dialect })
    const restored = await runSettle(['restore', '--from', to, '--url', target.url])
    expect(restored).toMatchObject({ code: 0 })
    expect(await send(target, 'GET', '_all_dbs')).toEqual(await send(source, 'GET', '_all_dbs'))
    for (const name of names.slice(0, 4))
      expect(await contentsOf(target.url, name)).toEqual(await contentsOf(source.url, name))
    const login = { name: 'ann', password: 'hers' }
    expect(await send(target, 'POST', '_session', login)).toMatchObject({ ok: true })
  })
})

/** Passes so many requests on, then none; the last one is passed on and its reply is not. */
async function cutAfter(target: Service, requests: number): Promise<{ readonly url: string }> {
  let left = requests
  const server = createServer(async (request, reply) => {
    left--
    const pieces: Buffer[] = []
    for await (const piece of request) pieces.push(piece)
    if (left < 0) {
      request.socket.destroy()
      return
    }
    const type = request.headers['content-type']
    const answer = await fetch(new URL(request.url ?? '', target.url), {
      method: request.method ?? 'GET',
      ...(type !== undefined && { headers: { 'Content-Type': type } }),
      ...(pieces.length > 0 && { body: new Uint8Array(Buffer.concat(pieces)) }),
    })
    const body = Buffer.from(await answer.arrayBuffer())
    if (left === 0) request.socket.destroy()
    else reply.writeHead(answer.status).end(body)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const address = server.address()
  return { url: `http://127.0.0.1:${typeof address === 'object' && address ? address.port : 0}/` }
}

describe('settle restore', () => {
  it('continues after it ended between any two requests', async () => {
    const source = await startService()
    await send(source, 'PUT', 'a')
    await send(source, 'PUT', 'a/doc', { text: 'x' })
    await send(source, 'PUT', 'a/_security', { members: { names: ['ann'], roles: [] } })
    await send(source, 'PUT', '_users/org.couchdb.user:ann', {
      _id: 'org.couchdb.user:ann',
      name: 'ann',
      type: 'user',
      roles: [],
      password: 'hers',
    })
    const to = await temporaryFolder()
    await runSettle(['backup', '--to', to, '--url', source.url])
    const args = ['restore', '--from', to, '--db', 'a', '--db', '_users']
    let isDone = false
    for (let requests = 1; !isDone; requests += 2) {
      expect(requests).toBeLessThan(60)
      const target = await startService()
      const { url } = await cutAfter(target, requests)
      const { code } = await runSettle([...args, '--url', url, '--quiet'])
      isDone = code === 0
      if (!isDone) expect(code).toBe(2)
      const { err, code: second } = await runSettle([...args, '--url', target.url])
      if (isDone) break
      expect([requests, second, err]).toEqual([requests, 0, expect.anything()])
      expect(await contentsOf(target.url, 'a')).toEqual(await contentsOf(source.url, 'a'))
      expect(await send(target, 'POST', '_session', { name: 'ann', password: 'hers' })).toMatchObject({ ok: true })
    }
  })
})

describe('settle restore of revisions that the server refuses', () => {
  it('reports them again when it is run again', async () => {
    const source = await startService()
    await send(source, 'PUT', 'a')
    for (const id of ['p:1', 'plain']) await send(source, 'PUT', `a/${id}`, {})
    const to = await temporaryFolder()
    await runSettle(['backup', '--to', to, '--url', source.url, '--db', 'a'])
    const target = await startService()
    await send(target, 'PUT', 'a?partitioned=true')
    for (let run = 0; run < 2; run++) {
      const { code, err } = await runSettle(['restore', '--from', to, '--url', target.url, '--db', 'a', '--merge'])
      expect([run, code, err]).toEqual([run, 1, expect.stringMatching(/plain 1-\w+ is refused: illegal_docid/)])
    }
    expect(await send(target, 'GET', 'a')).toMatchObject({ doc_count: 1 })
  })
})

describe('settle backup verify --restore', () => {
  it('keeps databases apart whose names are alike in the temporary server', async () => {
    const source = await startService()
    await send(source, 'PUT', 'trial_users')
    await send(source, 'PUT', 'trial_users/doc', {})
    const to = await temporaryFolder()
    await runSettle(['backup', '--to', to, '--url', source.url])
    const scratch = join(await temporaryFolder(), 'deep')
    await mkdir(scratch)
    const { code, err } = await runSettle(['backup', 'verify', to, '--restore', '--scratch', scratch])
    expect([code, err]).toEqual([0, expect.anything()])
  })
})
