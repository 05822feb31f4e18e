/** The history checker finds what nodes must not do: each fault is planted in a front before a server that has none. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { describe, expect, it, onTestFinished } from 'vitest'
import { startService } from '../support/service.ts'
import { History } from './history.ts'

interface Upstream {
  readonly status: number
  readonly text: string
}

/** A request for a document. */
interface Exchange {
  readonly method: string
  readonly path: string
  readonly body: string
  /** Sends the request on. */
  ask(): Promise<Upstream>
}

interface Faults {
  /** What becomes of one exchange; undefined where it passes. */
  readonly document?: (exchange: Exchange) => Promise<Upstream | undefined>
  /** What becomes of the lines of a feed. */
  readonly feed?: (lines: string) => string
}

/** As a node that has not heard of a commit: it shows what it knew before. */
function lostSignal(): Faults {
  const known = new Map<string, Upstream>()
  let count = 0
  const document = async ({ method, path, ask }: Exchange) => {
    if (method !== 'GET') return undefined
    const before = known.get(path)
    if (before && ++count % 10 === 0) return before
    const now = await ask()
    if (!before) known.set(path, now)
    return now
  }
  return { document }
}

/** Acknowledged, and not written. */
function lostWrite(): Faults {
  let count = 0
  const document = async ({ method, ask }: Exchange) => {
    if (method !== 'PUT') return undefined
    const answer = await ask()
    if (answer.status !== 201 || ++count % 10 !== 0) return answer
    const { rev } = JSON.parse(answer.text)
    return { status: 201, text: JSON.stringify({ ok: true, rev: `${Number.parseInt(rev, 10)}-notwritten` }) }
  }
  return { document }
}

/** An edit of a revision that is not the last one is acknowledged, as without a check of versions. */
function uncheckedVersion(): Faults {
  const document = async ({ method, body, ask }: Exchange) => {
    const answer = await ask()
    if (method !== 'PUT' || answer.status !== 409) return answer
    const number = Number.parseInt(JSON.parse(body)._rev ?? '0', 10)
    return { status: 201, text: JSON.stringify({ ok: true, rev: `${number + 1}-unchecked` }) }
  }
  return { document }
}

/** Written, and refused: as where a commit whose reply was lost is sent again. */
function refusedWrite(): Faults {
  let count = 0
  const document = async ({ method, ask }: Exchange) => {
    if (method !== 'PUT') return undefined
    const answer = await ask()
    if (answer.status !== 201 || ++count % 10 !== 0) return answer
    return { status: 409, text: '{"error":"conflict"}' }
  }
  return { document }
}

/** Alters the first line about a document that is written once. */
function alteredLine(replacement: string): () => Faults {
  return () => {
    let isDone = false
    const feed = (lines: string) => {
      if (isDone) return lines
      const altered = lines.replace(/^.*"added-.*\r\n/m, replacement)
      isDone = altered !== lines
      return altered
    }
    return { feed }
  }
}

async function withFaults({ document, feed }: Faults): Promise<History> {
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
    if (path.includes('_changes')) return follow(reply, sent, feed ?? ((lines) => lines))
    const ask = async () => {
      const answer = await sent()
      return { status: answer.status, text: await answer.text() }
    }
    const isDocument = /^\/history\/document-\d$/.test(path)
    const altered = isDocument ? await document?.({ method, path, body, ask }) : undefined
    const { status, text } = altered ?? (await ask())
    reply.writeHead(status).end(text)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const address = server.address()
  const port = typeof address === 'object' && address ? address.port : 0
  const urls = () => [`http://127.0.0.1:${port}/`]
  const history = new History({ urls, database: 'history', readers: 2, feeds: 1, patienceMs: 1000 })
  await history.begin()
  await history.progress(40)
  await history.end()
  return history
}

async function follow(
  reply: ServerResponse,
  sent: (signal: AbortSignal) => Promise<Response>,
  altered: (lines: string) => string,
): Promise<void> {
  const ending = new AbortController()
  reply.on('close', () => ending.abort())
  try {
    const answer = await sent(ending.signal)
    reply.writeHead(answer.status)
    const pieces = answer.body?.pipeThrough(new TextDecoderStream()) ?? []
    let rest = ''
    for await (const piece of pieces) {
      const end = (rest + piece).lastIndexOf('\n') + 1
      const lines = (rest + piece).slice(0, end)
      rest = (rest + piece).slice(end)
      reply.write(altered(lines))
    }
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
    const { problems, conflicts } = await withFaults({})
    expect(problems).toEqual([])
    expect(conflicts).toBeGreaterThan(0)
  })

  it.each([
    ['a signal that is lost', lostSignal, /was \d+ after \d+ was seen/],
    ['a write that is lost', lostWrite, /has lost \d+-notwritten|and was \d+-notwritten/],
    ['an edit whose version is not checked', uncheckedVersion, /-unchecked/],
    ['an edit that is written and refused', refusedWrite, /and attempt-\d+ was refused/],
    ['a change that a feed leaves out', alteredLine(''), /has not heard of added-\d+ 1-\w+; it knows undefined/],
    ['a change that a feed repeats', alteredLine('$&$&'), /gave sequence \d+ after \d+/],
    ['a feed that stops', () => ({ feed: () => '\n' }), /has not heard of document-\d/],
  ] as const)('shows %s', async (_, faults, problem) => {
    expect((await withFaults(faults())).problems.join('\n')).toMatch(problem)
  })
})
