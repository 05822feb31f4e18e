/**
 * A client for black-box tests. Paths, headers and bodies go out exactly as they are given, and what comes back is kept
 * as bytes. For what no HTTP client would send there is a bare socket.
 */
import { Agent, request as httpRequest, type IncomingHttpHeaders } from 'node:http'
import { connect, type Socket } from 'node:net'
import { afterAll, beforeAll, expect } from 'vitest'
import type { Service, ServiceOptions } from '../../src/service.ts'
import { withQuickHashes } from './quick-hashes.ts'
import { storagePlace } from './storage-place.ts'
import { createTestService, HAS_SEVERAL_SERVERS, TEST_NODES } from './test-service.ts'
import { until } from './until.ts'

export interface RequestOptions {
  /** A header that is undefined is left out, those that would be sent without asking too. */
  headers?: Record<string, string | string[] | undefined>
  /** A string or bytes go out as they are, anything else as JSON. */
  body?: unknown
}

export interface DatabaseInformation {
  db_name: string
  doc_count: number
  doc_del_count: number
  update_seq: number
  purge_seq: number
  compact_running: boolean
  disk_size: number
  data_size: number
  instance_start_time: string
  disk_format_version: number
  committed_update_seq: number
}

export class Reply {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly body: Buffer

  constructor(status: number, headers: IncomingHttpHeaders, body: Buffer) {
    this.status = status
    this.headers = headers
    this.body = body
  }

  get text(): string {
    return this.body.toString()
  }

  get json(): unknown {
    return JSON.parse(this.text)
  }

  /** The body as the test knows it to be. */
  as<T>(): T {
    return JSON.parse(this.text) as T
  }

  /** The revision that a write gave. */
  get rev(): string {
    expect(this.status, this.text).toBeLessThan(300)
    return this.as<{ rev: string }>().rev
  }
}

const LARGEST_REPLY_BYTES = 64 * 1024 * 1024

/** Talks to one server. */
export class Client {
  readonly url: URL
  /** Several where there are several nodes: each has connections of its own, and requests go to any of them. */
  readonly #agents = Array.from({ length: TEST_NODES > 1 ? 2 * TEST_NODES : 1 }, () => new Agent({ keepAlive: true }))
  #databases = 0

  constructor(url: string) {
    this.url = new URL(url)
  }

  /** `host:port`, as the client names the server. */
  get host(): string {
    return this.url.host
  }

  request(method: string, path: string, options: RequestOptions = {}): Promise<Reply> {
    return this.#request(method, path, options, this.#agents[Math.floor(Math.random() * this.#agents.length)])
  }

  /** The replies of all servers, where each of several answers for itself; otherwise one reply. */
  async getFromAll(path: string): Promise<Reply[]> {
    const replies: Reply[] = []
    // Each connection goes to the next server.
    for (let i = 0; i < (HAS_SEVERAL_SERVERS ? TEST_NODES : 1); i++) {
      replies.push(await this.#request('GET', path, {}, false))
    }
    return replies
  }

  #request(
    method: string,
    path: string,
    { headers = {}, body }: RequestOptions,
    agent: Agent | false | undefined,
  ): Promise<Reply> {
    const { hostname, port } = this.url
    const bytes = bodyBytes(body)
    const defaults = bytes === undefined ? {} : { 'Content-Type': 'application/json' }
    const chunked = Object.keys(headers).some((name) => name.toLowerCase() === 'transfer-encoding')
    const length = bytes === undefined || chunked ? {} : { 'Content-Length': String(bytes.length) }
    const sent = Object.entries({ ...defaults, ...length, ...headers }).filter(([, value]) => value !== undefined)
    return new Promise((resolve, reject) => {
      const outgoing = httpRequest(
        {
          agent,
          hostname,
          port,
          method,
          path,
          headers: Object.fromEntries(sent) as Record<string, string | string[]>,
        },
        (response) => {
          const chunks: Buffer[] = []
          let size = 0
          response
            .on('data', (chunk: Buffer) => {
              chunks.push(chunk)
              size += chunk.length
              // A reply without end would take the test run with it.
              if (size > LARGEST_REPLY_BYTES) outgoing.destroy(new Error(`The reply is larger than ${size} bytes.`))
            })
            .on('error', reject)
            .on('end', () => resolve(new Reply(response.statusCode ?? 0, response.headers, Buffer.concat(chunks))))
        },
      )
      outgoing.on('error', reject).end(bytes)
    })
  }

  /** A new, empty database that no other test knows. */
  async database(): Promise<TestDatabase> {
    this.#databases++
    const database = new TestDatabase(this, `test-${this.#databases}`)
    const reply = await database.request('PUT')
    expect(reply.status, reply.text).toBe(201)
    return database
  }

  /** A new database with empty documents of these ids, in this order. */
  async databaseWith(...ids: string[]): Promise<TestDatabase> {
    const database = await this.database()
    for (const id of ids) await database.save(id, {})
    return database
  }

  open(): Promise<RawConnection> {
    return RawConnection.open(this.url)
  }

  /** Sends the bytes, ends nothing, and gives all that comes back until the server closes. */
  async exchange(bytes: string | Buffer): Promise<string> {
    const connection = await this.open()
    connection.write(bytes)
    return connection.closed()
  }

  close(): void {
    for (const agent of this.#agents) agent.destroy()
  }
}

/** One database of the server; its paths come after `/{db}/`, escaped by the test. */
export class TestDatabase {
  readonly client: Client
  readonly name: string

  constructor(client: Client, name: string) {
    this.client = client
    this.name = name
  }

  get url(): string {
    return `http://${this.client.host}/${this.name}`
  }

  request(method: string, path = '', options: RequestOptions = {}): Promise<Reply> {
    const slash = path === '' || path.startsWith('?') ? '' : '/'
    return this.client.request(method, `/${this.name}${slash}${path}`, options)
  }

  get(path = '', headers: RequestOptions['headers'] = {}): Promise<Reply> {
    return this.request('GET', path, { headers })
  }

  head(path = '', headers: RequestOptions['headers'] = {}): Promise<Reply> {
    return this.request('HEAD', path, { headers })
  }

  put(path: string, body: unknown, headers: RequestOptions['headers'] = {}): Promise<Reply> {
    return this.request('PUT', path, { body, headers })
  }

  post(path: string, body: unknown, headers: RequestOptions['headers'] = {}): Promise<Reply> {
    return this.request('POST', path, { body, headers })
  }

  delete(path: string, headers: RequestOptions['headers'] = {}): Promise<Reply> {
    return this.request('DELETE', path, { headers })
  }

  copy(path: string, destination: string | undefined, headers: RequestOptions['headers'] = {}): Promise<Reply> {
    return this.request('COPY', path, { headers: { Destination: destination, ...headers } })
  }

  /** Writes that must succeed; each gives the new revision. */
  async save(id: string, document: unknown): Promise<string> {
    return (await this.put(id, document)).rev
  }

  async remove(id: string, rev: string): Promise<string> {
    return (await this.delete(`${id}?rev=${rev}`)).rev
  }

  /** A live document and the tombstone on it. */
  async saveAndRemove(id: string, document: unknown): Promise<{ live: string; tombstone: string }> {
    const live = await this.save(id, document)
    return { live, tombstone: await this.remove(id, live) }
  }

  /** Stores revisions as another server would hand them over. */
  async replicate(...docs: unknown[]): Promise<void> {
    const reply = await this.post('_bulk_docs', { new_edits: false, docs })
    expect(reply.status, reply.text).toBe(201)
    for (const entry of reply.as<{ error?: string }[]>()) expect(entry.error, reply.text).toBeUndefined()
  }

  async info(): Promise<DatabaseInformation> {
    return (await this.get()).as<DatabaseInformation>()
  }

  /** All that a refused request must leave as it was. */
  async state(): Promise<unknown> {
    const { doc_count, doc_del_count, update_seq, purge_seq } = await this.info()
    const documents = (await this.get('_all_docs?include_docs=true&conflicts=true')).text
    return { doc_count, doc_del_count, update_seq, purge_seq, documents }
  }

  async compact(): Promise<void> {
    const reply = await this.post('_compact', '')
    expect(reply.status, reply.text).toBe(202)
    await until(async () => !(await this.info()).compact_running)
  }
}

/** A connection whose every byte is the test's own. */
export class RawConnection {
  readonly #socket: Socket
  #received = ''
  #ended = false

  static open({ hostname, port }: URL): Promise<RawConnection> {
    return new Promise((resolve, reject) => {
      const socket = connect(Number(port), hostname, () => resolve(new RawConnection(socket)))
      socket.once('error', reject)
    })
  }

  constructor(socket: Socket) {
    this.#socket = socket
    socket
      .on('data', (data) => (this.#received += data.toString('latin1')))
      // A server that refuses may reset the connection while the client still sends.
      .on('error', () => undefined)
      .on('close', () => (this.#ended = true))
  }

  /** Latin-1 of what came so far. */
  get received(): string {
    return this.#received
  }

  /** The statuses of all replies that came so far, interim ones too. */
  get statuses(): string[] {
    return [...this.#received.matchAll(/HTTP\/1\.1 (\d{3})/g)].map(([, status]) => status ?? '')
  }

  write(bytes: string | Buffer): void {
    this.#socket.write(bytes)
  }

  /** Whether all that was written is on its way. */
  get isDrained(): boolean {
    return this.#socket.writableLength === 0
  }

  async receives(pattern: RegExp | string): Promise<string> {
    await until(async () => this.#ended || matches(this.#received, pattern))
    expect(this.#received).toMatch(pattern)
    return this.#received
  }

  /** Takes nothing more; what comes waits between the server and here. */
  pause(): void {
    this.#socket.pause()
  }

  resume(): void {
    this.#socket.resume()
  }

  async closed(): Promise<string> {
    await until(async () => this.#ended)
    return this.#received
  }

  /** Sends nothing more, and still reads. */
  endSending(): void {
    this.#socket.end()
  }

  end(): void {
    this.#socket.destroy()
  }

  /** Is gone, and the server knows it: it can tell no other way that nobody reads any more. */
  reset(): void {
    this.#socket.resetAndDestroy()
  }
}

/** A request as it goes over the wire. */
export function rawRequest(lines: string[], body: string | Buffer = ''): Buffer {
  return Buffer.concat([Buffer.from(`${lines.join('\r\n')}\r\n\r\n`), Buffer.from(body)])
}

/** One server for all tests of a file; they share nothing but it. */
export function serverOfFile(options: ServiceOptions = {}): () => Client {
  let service: Service | undefined
  let client: Client | undefined
  let removeFolder: (() => Promise<void>) | undefined
  beforeAll(async () => {
    const place = await storagePlace(options)
    removeFolder = place.remove
    service = await createTestService({ port: 0, ...place.options, ...withQuickHashes(options) })
    client = new Client(await service.listen())
  })
  afterAll(async () => {
    client?.close()
    await service?.close()
    await removeFolder?.()
  })
  return () => {
    if (!client) throw new Error('The server starts before the tests of the file, not while they are collected.')
    return client
  }
}

/** The reply says why the request was refused, in the form that all of them have. */
export function expectRefusal(reply: Reply, status: number, error: string, reason: string): void {
  expect([reply.status, reply.text]).toEqual([status, `${JSON.stringify({ error, reason })}\n`])
  expect(reply.headers['cache-control']).toBe('must-revalidate')
  expect(reply.headers['content-length']).toBe(String(reply.body.length))
}

export function expectConflict(reply: Reply): void {
  expectRefusal(reply, 409, 'conflict', 'Document update conflict.')
}

function matches(text: string, pattern: RegExp | string): boolean {
  return typeof pattern === 'string' ? text.includes(pattern) : pattern.test(text)
}

function bodyBytes(body: unknown): Buffer | undefined {
  if (body === undefined) return undefined
  if (typeof body === 'string') return Buffer.from(body)
  return Buffer.isBuffer(body) ? body : Buffer.from(JSON.stringify(body))
}
