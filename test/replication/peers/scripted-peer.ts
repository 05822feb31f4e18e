/**
 * A peer whose replies the test writes itself: what no real server would answer. Whatever the test does not answer is
 * answered as an empty database would.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { onTestFinished } from 'vitest'

export interface ScriptedRequest {
  readonly method: string
  /** Below the database, without the query. */
  readonly path: string
  readonly query: URLSearchParams
  readonly headers: IncomingMessage['headers']
  readonly body: string
}

/** A value is sent as JSON, a function answers itself; undefined leaves it to the empty database. */
export type Script = (request: ScriptedRequest) => unknown

export type RawAnswer = (response: ServerResponse) => void

export class ScriptedPeer {
  readonly seen: ScriptedRequest[] = []
  readonly #server: Server
  readonly #script: Script

  static async start(script: Script): Promise<ScriptedPeer> {
    const peer = new ScriptedPeer(script)
    await new Promise<void>((resolve) => peer.#server.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => peer.close())
    return peer
  }

  private constructor(script: Script) {
    this.#script = script
    this.#server = createServer((request, response) => {
      const chunks: Buffer[] = []
      request.on('error', () => {})
      response.on('error', () => {})
      request.on('data', (chunk: Buffer) => chunks.push(chunk))
      request.on('end', () => this.#answer(request, response, Buffer.concat(chunks).toString()))
    })
  }

  get host(): string {
    const { port } = this.#server.address() as AddressInfo
    return `127.0.0.1:${port}`
  }

  get url(): string {
    return `http://${this.host}/db`
  }

  /** The requests for one resource. */
  to(path: string): ScriptedRequest[] {
    return this.seen.filter((request) => request.path === path)
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
  }

  #answer(request: IncomingMessage, response: ServerResponse, body: string): void {
    const { method = 'GET', headers } = request
    const url = new URL(request.url ?? '/', 'http://x')
    const path = decodeURIComponent(url.pathname.replace(/^\/db\/?/, ''))
    const asked: ScriptedRequest = { method, path, query: url.searchParams, headers, body }
    this.seen.push(asked)
    const answer = this.#script(asked) ?? emptyDatabase(asked)
    if (typeof answer === 'function') answer(response)
    else response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answer))
  }
}

function emptyDatabase({ method, path }: ScriptedRequest): unknown {
  if (path === '') return { db_name: 'db', update_seq: 0, instance_start_time: '0' }
  if (path === '_changes') return { results: [], last_seq: 0 }
  if (path === '_ensure_full_commit') return { ok: true, instance_start_time: '0' }
  if (path === '_revs_diff') return {}
  if (path === '_bulk_docs') return []
  if (path.startsWith('_local/') && method === 'PUT') return { ok: true, id: path, rev: '0-1' }
  return status(404, { error: 'not_found', reason: 'missing' })
}

export function status(code: number, body: unknown, headers: Record<string, string> = {}): RawAnswer {
  return (response) => {
    response.writeHead(code, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body))
  }
}

export function text(
  body: string | Buffer,
  contentType = 'application/json',
  headers: Record<string, string> = {},
): RawAnswer {
  return (response) => {
    response.writeHead(200, { 'content-type': contentType, ...headers }).end(body)
  }
}

/** A row of a feed. */
export function change(seq: unknown, id: string, ...revisions: string[]): object {
  return { seq, id, changes: revisions.map((rev) => ({ rev })) }
}

/** A revision that tests need not distinguish from others. */
export function revision(generation: number, digit = 'a'): string {
  return `${generation}-${digit.repeat(32)}`
}
