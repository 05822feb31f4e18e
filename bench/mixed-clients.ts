/**
 * Clients that do all that clients do, on data that stays the same size: the same documents are written again and again,
 * what is created is deleted. Every reply is checked.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { BenchDatabase, expectStatus, member, parsed } from './bench-database.ts'
import { HttpConnection, requestText } from './http-connection.ts'
import type { Reply } from './reply-reader.ts'
import { documentId, documentMembers } from './sample-documents.ts'

const DATABASES = 4
const DOCUMENTS = 2000
const DOCUMENT_BYTES = 300
const ATTACHMENT = 'x'.repeat(50_000)
/** Otherwise trees grow to a thousand revisions, and with them the files. */
const REVISIONS = 20
const DOCUMENT_CLIENTS = 8
const QUERY_CLIENTS = 2
const FEEDS = 20
/** Between two requests of a client: the machine should be busy, not full. */
const PAUSE_MS = 4
const EVERY_MS = { database: 5_000, replication: 20_000 }

const DESIGN = JSON.stringify({
  views: {
    number: { map: 'function (doc) { if (doc.number) emit(doc.number, doc.n) }', reduce: '_count' },
    tags: { map: 'function (doc) { (doc.tags || []).forEach(function (tag) { emit(tag, 1) }) }', reduce: '_sum' },
  },
})

type Ask = (method: string, path: string, status: number | readonly number[], body?: string) => Promise<unknown>

export class MixedClients {
  readonly #databases: readonly MixedDatabase[]
  readonly #feeds: HttpConnection[] = []
  #readsMs: number[] = []
  #writesMs: number[] = []
  #isStopping = false
  /** Of all clients; none ends before it is told to. */
  #work: Promise<unknown> = Promise.resolve()
  requests = 0

  static async start(url: string): Promise<MixedClients> {
    const clients = new MixedClients(url)
    for (const database of clients.#databases) await database.create()
    await clients.#follow()
    clients.#work = Promise.all([
      ...times(DOCUMENT_CLIENTS, () => clients.#client((ask) => clients.#document(ask))),
      ...times(QUERY_CLIENTS, () => clients.#client((ask) => clients.#query(ask))),
      clients.#client((ask) => clients.#waitForChange(ask)),
      clients.#client((ask) => clients.#comeAndGo(ask), EVERY_MS.database),
      clients.#client((ask) => clients.#replicate(ask), EVERY_MS.replication),
    ])
    // Whoever waits for the work learns of its failure.
    clients.#work.catch(() => {})
    return clients
  }

  private constructor(url: string) {
    this.#databases = Array.from({ length: DATABASES }, (_, i) => new MixedDatabase(url, `mixed-${i}`))
  }

  /** Lets the clients go on for so long; rejects when one of them failed. */
  async work(durationMs: number): Promise<void> {
    await Promise.race([delay(durationMs), this.#work])
  }

  async stop(): Promise<void> {
    this.#isStopping = true
    // The one that waits for a change gets it.
    const wake = async () => {
      for (const { database } of this.#databases) await database.call('POST', '', 201, '{"_id":"last"}')
    }
    await Promise.all([this.#work, wake()])
    for (const feed of this.#feeds) feed.destroy()
  }

  /** Those since the last time. */
  takeLatencies(): { readsMs: number[]; writesMs: number[] } {
    const taken = { readsMs: this.#readsMs, writesMs: this.#writesMs }
    this.#readsMs = []
    this.#writesMs = []
    return taken
  }

  async #client(step: (ask: Ask) => Promise<void>, pauseMs = PAUSE_MS): Promise<void> {
    const { server } = this.#databases[0]!.database
    const connection = await HttpConnection.open(server)
    const ask: Ask = async (method, path, status, body) => {
      this.requests++
      const reply = await connection.exchange(requestText(server, method, path, body))
      const right = [status].flat()
      return right.includes(reply.status) ? parsedIfAny(reply) : expectStatus(reply, right[0]!)
    }
    while (!this.#isStopping) {
      await step(ask)
      await delay(Math.random() * 2 * pauseMs)
    }
    connection.destroy()
  }

  async #document(ask: Ask): Promise<void> {
    const database = this.#anyDatabase()
    const number = Math.floor(Math.random() * DOCUMENTS)
    const path = `/${database.name}/${documentId(number)}`
    const choice = Math.random()
    const begunMs = performance.now()
    if (choice < 0.6) {
      await ask('GET', path, [200, 404])
      this.#readsMs.push(performance.now() - begunMs)
      return
    }
    if (choice < 0.65) return database.replaceMany(ask)
    const revision = database.takeRevision(number)
    // Somebody else is writing it.
    if (revision === undefined) return
    try {
      if (choice < 0.7) await ask('DELETE', `${path}?rev=${revision.value}`, 200)
      const isDeleted = choice < 0.7
      const writtenMs = performance.now()
      if (choice < 0.75 && !isDeleted) {
        revision.value = revisionIn(await ask('PUT', `${path}/file?rev=${revision.value}`, 201, ATTACHMENT))
        await ask('GET', path, 200)
        return
      }
      const known = isDeleted ? '' : `"_rev":"${revision.value}",`
      const body = `{${known}"n":${Math.random()},${documentMembers(number, DOCUMENT_BYTES)}}`
      revision.value = revisionIn(await ask('PUT', path, 201, body))
      this.#writesMs.push(performance.now() - writtenMs)
    } finally {
      revision.release()
    }
  }

  async #query(ask: Ask): Promise<void> {
    const { name } = this.#anyDatabase()
    const start = 1_000_000_000 + Math.floor(Math.random() * DOCUMENTS)
    await ask('GET', `/${name}/_design/mixed/_view/number?reduce=false&startkey=${start}&limit=25`, 200)
    await ask('GET', `/${name}/_design/mixed/_view/tags?group=true`, 200)
    await ask('POST', `/${name}/_find`, 200, `{"selector":{"number":{"$gt":${start}}},"limit":25}`)
    await ask('GET', `/${name}/_all_docs?include_docs=true&limit=100&startkey="${documentId(start % 1000)}"`, 200)
  }

  async #waitForChange(ask: Ask): Promise<void> {
    await ask('GET', `/${this.#databases[0]!.name}/_changes?feed=longpoll&since=now`, 200)
  }

  async #comeAndGo(ask: Ask): Promise<void> {
    const path = '/mixed-guest'
    await ask('PUT', path, 201)
    await ask('PUT', `${path}/_design/mixed`, 201, DESIGN)
    for (let number = 0; number < 20; number++) {
      await ask('PUT', `${path}/${documentId(number)}`, 201, `{${documentMembers(number, DOCUMENT_BYTES)}}`)
    }
    await ask('GET', `${path}/_design/mixed/_view/number`, 200)
    await ask('DELETE', path, 200)
  }

  async #replicate(ask: Ask): Promise<void> {
    const { name } = this.#databases[0]!
    const body = JSON.stringify({ source: name, target: 'mixed-copy', create_target: true })
    await ask('POST', '/_replicate', 200, body)
    await ask('PUT', '/mixed-copy/_revs_limit', 200, String(REVISIONS))
  }

  /** Clients that follow a database all the time. */
  async #follow(): Promise<void> {
    for (let i = 0; i < FEEDS; i++) {
      const { database } = this.#databases[i % DATABASES]!
      const feed = await HttpConnection.open(database.server)
      this.#feeds.push(feed)
      const request = database.request('GET', '/_changes?feed=continuous&since=now&heartbeat=5000')
      feed
        .exchange(request, () => {})
        .then(
          () => this.#failed(new Error('A feed has ended.')),
          (error: unknown) => this.#failed(error),
        )
    }
  }

  #failed(error: unknown): void {
    if (this.#isStopping) return
    this.#work = Promise.reject(error)
    this.#work.catch(() => {})
  }

  #anyDatabase(): MixedDatabase {
    return this.#databases[Math.floor(Math.random() * DATABASES)]!
  }
}

/** Knows the revision of each document, and who writes it now. */
class MixedDatabase {
  readonly name: string
  readonly database: BenchDatabase
  readonly #revisions = new Map<number, string>()
  readonly #taken = new Set<number>()

  constructor(url: string, name: string) {
    this.name = name
    this.database = new BenchDatabase(url, name)
  }

  async create(): Promise<void> {
    await this.database.create()
    await this.database.call('PUT', '/_revs_limit', 200, String(REVISIONS))
    await this.database.call('PUT', '/_design/mixed', 201, DESIGN)
    await this.database.call('POST', '/_index', 200, '{"index":{"fields":["number"]}}')
    for (let number = 0; number < DOCUMENTS; number++) {
      const body = `{${documentMembers(number, DOCUMENT_BYTES)}}`
      const saved = await this.database.call('PUT', `/${documentId(number)}`, 201, body)
      this.#revisions.set(number, revisionIn(saved))
    }
  }

  /** Undefined where somebody has it. */
  takeRevision(number: number): { value: string; release(): void } | undefined {
    const value = this.#revisions.get(number)
    if (value === undefined || this.#taken.has(number)) return undefined
    this.#taken.add(number)
    const revision = {
      value,
      release: () => {
        this.#revisions.set(number, revision.value)
        this.#taken.delete(number)
      },
    }
    return revision
  }

  /** Fifty documents at once. */
  async replaceMany(ask: Ask): Promise<void> {
    const first = Math.floor(Math.random() * (DOCUMENTS - 50))
    const revisions: { number: number; value: string; release(): void }[] = []
    for (let number = first; number < first + 50; number++) {
      const revision = this.takeRevision(number)
      if (revision) revisions.push(Object.assign(revision, { number }))
    }
    const docs = revisions.map(
      ({ number, value }) =>
        `{"_id":"${documentId(number)}","_rev":"${value}",${documentMembers(number, DOCUMENT_BYTES)}}`,
    )
    const rows = await ask('POST', `/${this.name}/_bulk_docs`, 201, `{"docs":[${docs.join(',')}]}`)
    if (!Array.isArray(rows)) throw new Error('Rows were expected.')
    for (const [i, revision] of revisions.entries()) {
      revision.value = revisionIn(rows[i])
      revision.release()
    }
  }
}

function revisionIn(saved: unknown): string {
  const revision = member(saved, 'rev')
  if (typeof revision !== 'string') throw new Error(`A write was refused: ${JSON.stringify(saved)}`)
  return revision
}

function parsedIfAny(reply: Reply): unknown {
  return reply.body.length > 0 ? parsed(reply, reply.status) : undefined
}

function times<T>(amount: number, make: () => T): T[] {
  return Array.from({ length: amount }, make)
}
