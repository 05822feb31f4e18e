/** `settle backup` of a database that is compacted, deleted or made anew while it is sent. */
import { createServer, request as httpRequest } from 'node:http'
import { describe, expect, it, onTestFinished } from 'vitest'
import type { Service } from '../../src/service.ts'
import { startService } from '../support/service.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { until } from '../support/until.ts'
import { contentsOf } from './compare-databases.ts'
import { runSettle } from './run-settle.ts'

/** Much more than sockets hold. */
const DOCUMENTS = 240
const TEXT = 'x'.repeat(50_000)
const MIDDLE_BYTES = 2_000_000

async function send(service: Service, method: string, path: string, body?: unknown) {
  const headers = { 'Content-Type': 'application/json' }
  const text = body === undefined ? {} : { body: JSON.stringify(body) }
  const reply = await fetch(`${service.url}${path}`, { method, headers, ...text })
  if (!reply.ok) throw new Error(`${method} ${path}: ${reply.status} ${await reply.text()}`)
  return JSON.parse(await reply.text())
}

async function fill(service: Service, name: string, count = DOCUMENTS): Promise<void> {
  await send(service, 'PUT', name)
  for (let first = 0; first < count; first += 100) {
    const docs = Array.from({ length: Math.min(100, count - first) }, (_, i) => ({
      _id: `doc-${first + i}`,
      text: TEXT,
    }))
    await send(service, 'POST', `${name}/_bulk_docs`, { docs })
  }
}

/** The server behind another address. In the middle of its first backup of `a` the stream waits for something to be done. */
async function interruptedBy(service: Service, work: () => Promise<unknown>): Promise<string> {
  let isDone = false
  const server = createServer((request, reply) => {
    const upstream = httpRequest(
      new URL(request.url ?? '', service.url),
      { method: request.method ?? 'GET' },
      (answer) => {
        reply.writeHead(answer.statusCode ?? 0, answer.headers)
        let bytes = 0
        answer.on('data', (piece: Buffer) => {
          bytes += piece.length
          reply.write(piece)
          if (isDone || bytes < MIDDLE_BYTES || !request.url?.startsWith('/a/_backup')) return
          isDone = true
          answer.pause()
          work().finally(() => answer.resume())
        })
        answer.on('end', () => reply.end())
        answer.on('error', () => reply.destroy())
      },
    )
    upstream.on('error', () => reply.destroy())
    request.pipe(upstream)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const address = server.address()
  return `http://127.0.0.1:${typeof address === 'object' && address ? address.port : 0}/`
}

async function restored(from: string): Promise<Service> {
  const target = await startService()
  const { code, err } = await runSettle(['restore', '--from', from, '--url', target.url])
  expect([code, err]).toEqual([0, expect.anything()])
  return target
}

describe('a backup of a database', () => {
  it('that is written to and compacted meanwhile is of one state', async () => {
    const source = await startService()
    await fill(source, 'a')
    const before = await contentsOf(source.url, 'a')
    const url = await interruptedBy(source, async () => {
      for (let i = 0; i < DOCUMENTS; i += 9) {
        const { _rev } = await send(source, 'GET', `a/doc-${i}`)
        await send(source, 'POST', 'a/_purge', { [`doc-${i}`]: [_rev] })
      }
      await send(source, 'POST', 'a/_compact', {})
      await until(async () => !(await send(source, 'GET', 'a')).compact_running)
    })
    const to = await temporaryFolder()
    const { code, err } = await runSettle(['backup', '--to', to, '--url', url, '--db', 'a', '--verify'])
    expect([code, err]).toEqual([0, expect.anything()])
    const target = await startService()
    expect(await runSettle(['restore', '--from', to, '--url', target.url, '--db', 'a'])).toMatchObject({ code: 0 })
    expect(await contentsOf(target.url, 'a')).toEqual(before)
  })

  it.each(['deleted', 'made anew'])('that is %s meanwhile is never a mixture', async (how) => {
    const source = await startService()
    for (const name of ['a', 'b']) await fill(source, name, name === 'a' ? DOCUMENTS : 3)
    const url = await interruptedBy(source, async () => {
      await send(source, 'DELETE', 'a')
      if (how === 'made anew') await fill(source, 'a', 5)
    })
    const to = await temporaryFolder()
    // Either the state of before, or a part that is told as such.
    const { code } = await runSettle(['backup', '--to', to, '--url', url])
    expect([0, 2]).toContain(code)
    expect(await runSettle(['backup', 'verify', to])).toMatchObject({ code: 0 })
    expect(await runSettle(['backup', '--to', to, '--url', url])).toMatchObject({ code: 0 })
    const target = await restored(to)
    expect(await send(target, 'GET', '_all_dbs')).toEqual(await send(source, 'GET', '_all_dbs'))
    if (how === 'made anew') expect(await contentsOf(target.url, 'a')).toEqual(await contentsOf(source.url, 'a'))
  })
})
