/** The history checker finds what nodes must not do: each fault is planted in a front before a server that has none. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { describe, expect, it, onTestFinished } from 'vitest'
import { startService } from '../support/service.ts'
import { until } from '../support/until.ts'
import { History } from './history.ts'

interface Upstream {
  readonly status: number
  readonly text: string
}

/** What a fault makes of one exchange; undefined where it passes. `ask` sends the request on. */
type Fault = (method: string, path: string, ask: () => Promise<Upstream>) => Promise<Upstream | undefined>

const isDocument = (path: string) => /^\/history\/document-\d$/.test(path)

/** As a node that has not heard of a commit: it shows what it knew before. */
function lostSignal(): Fault {
  const known = new Map<string, Upstream>()
  let count = 0
  return async (method, path, ask) => {
    if (method !== 'GET' || !isDocument(path)) return undefined
    const before = known.get(path)
    if (before && ++count % 10 === 0) return before
    const now = await ask()
    if (!before) known.set(path, now)
    return now
  }
}

/** Acknowledged, and not written. */
function lostWrite(): Fault {
  let count = 0
  return async (method, path, ask) => {
    if (method !== 'PUT' || !isDocument(path) || ++count % 10 !== 0) return undefined
    const { status, text } = await ask()
    const { rev = '1-x' } = JSON.parse(text)
    return { status, text: JSON.stringify({ ok: true, rev: `${Number.parseInt(rev, 10)}-notwritten` }) }
  }
}

async function withFault(fault: Fault, { mutesFeeds = false } = {}): Promise<History> {
  const { url } = await startService()
  const server = createServer(async (request, reply) => {
    const path = request.url ?? ''
    const method = request.method ?? ''
    const body = await textOf(request)
    const sent = (signal?: AbortSignal) =>
      fetch(new URL(path, url), {
        method,
        headers: { 'Content-Type': 'application/json' },
        ...(body !== '' && { body }),
        ...(signal && { signal }),
      })
    if (path.includes('_changes')) return mutesFeeds ? void reply.writeHead(200).write('\n') : follow(reply, sent)
    const ask = async () => {
      const answer = await sent()
      return { status: answer.status, text: await answer.text() }
    }
    const { status, text } = (await fault(method, path, ask)) ?? (await ask())
    reply.writeHead(status).end(text)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const address = server.address()
  const port = typeof address === 'object' && address ? address.port : 0
  const history = new History({ url: `http://127.0.0.1:${port}/`, database: 'history', feeds: 1, patienceMs: 1000 })
  await history.begin()
  await until(() => history.acknowledged >= 40)
  await history.end()
  return history
}

async function follow(reply: ServerResponse, sent: (signal: AbortSignal) => Promise<Response>): Promise<void> {
  const ending = new AbortController()
  reply.on('close', () => ending.abort())
  const answer = await sent(ending.signal)
  reply.writeHead(answer.status)
  try {
    for await (const piece of answer.body ?? []) reply.write(piece)
  } catch {
    // The reader has left.
  }
  reply.end()
}

async function textOf(request: IncomingMessage): Promise<string> {
  let text = ''
  for await (const piece of request) text += piece
  return text
}

describe('a history of several nodes', () => {
  it('has no problems where there is no fault', async () => {
    expect((await withFault(async () => undefined)).problems).toEqual([])
  })

  it.each([
    ['a signal that is lost', lostSignal, /was \d+ after \d+ was seen/],
    ['a write that is lost', lostWrite, /has lost \d+-notwritten|got \d+-\w+ beside/],
  ])('shows %s', async (_, fault, problem) => {
    expect((await withFault(fault())).problems.join('\n')).toMatch(problem)
  })

  it('shows a feed that is not told of changes', async () => {
    const { problems } = await withFault(async () => undefined, { mutesFeeds: true })
    expect(problems.join('\n')).toMatch(/has not heard of document-\d/)
  })
})
