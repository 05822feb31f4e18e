/** A database on a server under test, made for one workload and removed after it. Checks what it is answered. */
import { addressOf, HttpConnection, type RequestOptions, requestText, type ServerAddress } from './http-connection.ts'
import type { Reply } from './reply-reader.ts'
import { bulkBody } from './sample-documents.ts'

const FILL_BATCH = 1000

export class BenchDatabase {
  readonly server: ServerAddress
  readonly name: string

  constructor(serverUrl: string, name: string) {
    this.server = addressOf(serverUrl)
    this.name = name
  }

  async create(): Promise<void> {
    await this.call('PUT', '', 201)
  }

  async drop(): Promise<void> {
    await this.call('DELETE', '', 200)
  }

  /** A request inside the database, ready to be sent; the path begins with a slash, or is empty. */
  request(method: string, path: string, body?: string, options?: RequestOptions): string {
    return requestText(this.server, method, `/${this.name}${path}`, body, options)
  }

  async call(method: string, path: string, status: number, body?: string, options?: RequestOptions): Promise<unknown> {
    const connection = await HttpConnection.open(this.server)
    try {
      return parsed(await connection.exchange(this.request(method, path, body, options)), status)
    } finally {
      connection.destroy()
    }
  }

  async fill(count: number, sizeBytes: number): Promise<void> {
    for (let first = 0; first < count; first += FILL_BATCH) {
      const batch = Math.min(FILL_BATCH, count - first)
      const rows = await this.call('POST', '/_bulk_docs', 201, bulkBody(first, batch, sizeBytes))
      savedIn(rows, batch)
    }
    await this.expectCount(count)
  }

  async expectCount(count: number): Promise<void> {
    const found = member(await this.call('GET', '', 200), 'doc_count')
    if (found !== count) throw new Error(`${count} documents should be there, but doc_count is ${found}.`)
  }
}

export function expectStatus(reply: Reply, status: number): void {
  if (reply.status === status) return
  throw new Error(
    `Status ${status} was expected, but ${reply.status} came: ${reply.body.toString('utf8', 0, 200).trim()}`,
  )
}

export function parsed(reply: Reply, status: number): unknown {
  expectStatus(reply, status)
  return JSON.parse(reply.body.toString('utf8'))
}

export function member(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined
}

export interface SavedDocument {
  readonly id: string
  readonly revision: string
}

/** What an answer to `_bulk_docs` says was saved, which must be all. Not every server keeps the order of the request. */
export function savedIn(rows: unknown, count: number): SavedDocument[] {
  if (!Array.isArray(rows) || rows.length !== count) throw new Error(`${count} rows should have been answered.`)
  return rows.map((row: unknown) => {
    const id = member(row, 'id')
    const revision = member(row, 'rev')
    if (typeof id === 'string' && typeof revision === 'string') return { id, revision }
    throw new Error(`A document was not saved: ${JSON.stringify(row)}`)
  })
}

/** The rows in an answer of `_all_docs`; each must satisfy the test. */
export function rowsIn(answer: unknown, count: number, isRight: (row: unknown) => boolean): unknown[] {
  const rows = member(answer, 'rows')
  if (!Array.isArray(rows) || rows.length !== count) throw new Error(`${count} rows should have been answered.`)
  const wrong: unknown = rows.find((row: unknown) => !isRight(row))
  if (wrong !== undefined) throw new Error(`A row is wrong: ${JSON.stringify(wrong)}`)
  return rows
}
