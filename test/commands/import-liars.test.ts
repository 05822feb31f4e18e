/** `settle import` from servers that end in the middle, or answer what no server should: it ends, with a report. */
import { createServer, type ServerResponse } from 'node:http'
import { describe, expect, it, onTestFinished } from 'vitest'
import { Client } from '../support/client.ts'
import { startService } from '../support/service.ts'
import { runSettle } from './run-settle.ts'

/** Answers a request itself: then it is true. */
type Lie = (path: string, reply: ServerResponse) => boolean

const REV = `1-${'a'.repeat(32)}`

function json(reply: ServerResponse, value: unknown, status = 200): true {
  reply.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify(value))
  return true
}

/** A server with one database of one document, but for its lies. */
async function liar(lie: Lie): Promise<string> {
  const server = createServer(async (request, reply) => {
    let body = ''
    for await (const piece of request) body += piece
    const [path = '', query = ''] = (request.url ?? '').split('?')
    if (lie(path, reply)) return
    if (path === '/') json(reply, { version: '1.6.1' })
    else if (path === '/_all_dbs') json(reply, ['db'])
    else if (/^\/db\/?$/.test(path)) json(reply, { doc_count: 1, doc_del_count: 0, update_seq: 1 })
    else if (path === '/db/_security') json(reply, {})
    else if (path === '/db/_changes') {
      const results = query.includes('since=0') ? [{ seq: 1, id: 'a', changes: [{ rev: REV }] }] : []
      json(reply, { results, last_seq: 1 })
    } else if (path === '/db/_bulk_get') {
      const { docs }: { docs: { id: string; rev: string }[] } = JSON.parse(body)
      json(reply, { results: docs.map(({ id, rev }) => ({ id, docs: [{ ok: { _id: id, _rev: rev } }] })) })
    } else json(reply, { error: 'not_found', reason: 'missing' }, 404)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const address = server.address()
  return `http://127.0.0.1:${typeof address === 'object' && address ? address.port : 0}/`
}

/** A reply that never ends. */
function endless(reply: ServerResponse, begin: string): true {
  reply.writeHead(200, { 'Content-Type': 'application/json' }).write(begin)
  const piece = 'x'.repeat(65_536)
  const send = () => {
    while (!reply.destroyed && reply.write(piece));
    if (!reply.destroyed) reply.once('drain', send)
  }
  send()
  return true
}

async function imported(lie: Lie, ...flags: string[]) {
  const target = new Client((await startService()).url)
  const { code, out, err } = await runSettle(['import', await liar(lie), '--url', target.url.href, '--quiet', ...flags])
  return { code, out: out.toString(), err, target }
}

describe('settle import from a server', () => {
  it('that has one document', async () => {
    const { code, out, target } = await imported(() => false)
    expect([code, out]).toEqual([0, expect.stringMatching(/^db +1 +1 +0 +0 +1 {2}same$/m)])
    expect((await target.request('GET', '/db/a')).status).toBe(200)
  })

  it('whose list of databases has no end', async () => {
    const { code, err } = await imported((path, reply) => path === '/_all_dbs' && endless(reply, '["'))
    expect([code, err]).toEqual([1, expect.stringMatching(/is larger than 64\.0 MB/)])
  })

  it.each(['/db', '/db/_security', '/db/_changes'])('whose %s has no end', async (place) => {
    const { code, out, target } = await imported((path, reply) => path === place && endless(reply, '{"a":"'))
    expect([code, out]).toEqual([2, expect.stringMatching(/^ {2}db: .*larger than/m)])
    const { status } = await target.request('GET', '/db/a')
    expect(status).toBe(404)
  })

  it.each([
    ['fewer bytes than it announces', { 'Content-Length': '1000' }, '["db"]'],
    ['half a chunk', { 'Transfer-Encoding': 'chunked' }, '["db'],
  ])('that sends %s', async (_, headers, sent) => {
    const { code, err } = await imported((path, reply) => {
      if (path !== '/_all_dbs') return false
      reply.writeHead(200, headers).write(sent, () => reply.destroy())
      return true
    })
    expect([code, err]).toEqual([2, expect.stringMatching(/cannot be reached/)])
  })

  it('that sends the same page of _local documents again and again', async () => {
    const rows = Array.from({ length: 500 }, (_, i) => ({ id: `_local/${i}` }))
    const { code, out } = await imported(
      (path, reply) => path === '/db/_local_docs' && json(reply, { rows }),
      '--local',
    )
    expect([code, out]).toEqual([0, expect.stringContaining('The source does not continue its list of them.')])
  })

  it('that is gone before the settings are read: what was done is reported', async () => {
    const { code, out, target } = await imported((path, reply) => {
      if (!path.endsWith('/_config')) return false
      reply.destroy()
      return true
    })
    expect([code, out]).toEqual([2, expect.stringMatching(/^ {2}settings: The server at \S+ cannot be reached/m)])
    expect(out).toMatch(/^db +1 +1 +0 +0 +1 {2}same$/m)
    expect((await target.request('GET', '/db/a')).status).toBe(200)
  })

  it('that counts documents in words', async () => {
    const { code, out } = await imported((path, reply) => path === '/db' && json(reply, { doc_count: 'many' }))
    expect([code, out]).toEqual([2, expect.stringMatching(/differs$/m)])
  })
})
