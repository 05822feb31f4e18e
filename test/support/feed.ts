/** A client of a reply that does not end: what came so far can be read, and waited for. */
import { request as httpRequest, type IncomingHttpHeaders, type IncomingMessage } from 'node:http'
import { expect, onTestFinished } from 'vitest'
import type { Client, RequestOptions } from './client.ts'
import { until } from './until.ts'

/** However busy the machine is, what comes has come by then. */
const WAIT_MS = 30_000

export class FeedClient {
  readonly #response: IncomingMessage
  #text = ''
  #state: 'open' | 'ended' | 'broken' = 'open'

  /** Resolves when the head of the reply is there, whatever follows. */
  static open(client: Client, path: string, options: RequestOptions = {}): Promise<FeedClient> {
    const { hostname, port } = client.url
    const body = options.body === undefined ? undefined : JSON.stringify(options.body)
    const type = body === undefined ? {} : { 'Content-Type': 'application/json' }
    const headers = Object.fromEntries(
      Object.entries({ ...type, ...options.headers }).filter(([, value]) => value !== undefined),
    ) as Record<string, string>
    const method = body === undefined ? 'GET' : 'POST'
    return new Promise((resolve, reject) => {
      const outgoing = httpRequest({ agent: false, hostname, port, method, path, headers }, (response) => {
        const feed = new FeedClient(response)
        onTestFinished(() => feed.leave())
        resolve(feed)
      })
      outgoing.on('error', reject).end(body)
    })
  }

  private constructor(response: IncomingMessage) {
    this.#response = response
    response
      .setEncoding('utf8')
      .on('data', (text: string) => {
        this.#text += text
      })
      .on('error', () => {})
      .on('close', () => {
        this.#state = response.complete ? 'ended' : 'broken'
      })
  }

  get status(): number {
    return this.#response.statusCode ?? 0
  }

  get headers(): IncomingHttpHeaders {
    return this.#response.headers
  }

  /** All that came so far. */
  get text(): string {
    return this.#text
  }

  get state(): 'open' | 'ended' | 'broken' {
    return this.#state
  }

  /** The changes that came so far, in whatever form the feed has. */
  get changes(): Change[] {
    return this.#text
      .split('\n')
      .map((line) => line.replace(/^data: /, '').replace(/,?\r?$/, ''))
      .filter((line) => line.startsWith('{"seq"'))
      .map((line): Change => JSON.parse(line))
  }

  /** Waits until this came. */
  async receives(text: string | RegExp): Promise<void> {
    const isThere = () => (typeof text === 'string' ? this.#text.includes(text) : text.test(this.#text))
    await until(async () => this.#state !== 'open' || isThere(), WAIT_MS)
    if (!isThere()) expect(this.#text).toContain(text)
  }

  /** Waits until changes of these documents came, in this order, and no others. */
  async hears(...ids: string[]): Promise<void> {
    await until(async () => this.#state !== 'open' || this.changes.length >= ids.length, WAIT_MS)
    expect(this.changes.map(({ id }) => id)).toEqual(ids)
  }

  /** Waits until so much came, which is not looked at: it may be large. */
  async grows(characters: number): Promise<void> {
    await until(async () => this.#state !== 'open' || this.#text.length >= characters, WAIT_MS)
  }

  /** Waits for the regular end; gives all that came. */
  async ended(): Promise<string> {
    await until(async () => this.#state !== 'open', WAIT_MS)
    expect(this.#state).toBe('ended')
    return this.#text
  }

  /** Takes nothing from now on. */
  pause(): void {
    this.#response.pause()
  }

  resume(): void {
    this.#response.resume()
  }

  leave(): void {
    this.#response.destroy()
  }
}

export interface Change {
  seq: number
  id: string
  changes: { rev: string }[]
  deleted?: true
  doc?: Record<string, unknown> | null
}

export interface ChangesReply {
  results: Change[]
  last_seq: number
}
