/**
 * Load on indexes and their files in a server process: databases that come and go, and indexes that are compacted beside
 * readers and writers. Collects what no client may see: a status 5xx, a reply that does not come, a server that ended,
 * a file that nobody removed.
 */
import { readdirSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { Client, type Reply } from '../../support/client.ts'
import type { Random } from '../random.ts'
import { ServerProcess } from '../server-process.ts'

const SUMS = { views: { n: { map: 'function (doc) { emit(doc.n % 10, doc.n) }', reduce: '_sum' } } }
const DESIGN = '_design/test'
const VIEW = `${DESIGN}/_view/n`

const CLIENTS = 4
const DATABASES = ['one', 'two', 'three']
const READERS = 4
const VIEWS_BETWEEN_KILLS = 8
const WRITERS = 2

/** No reply takes so long, however busy the machine is. */
const LONGEST_REPLY_MS = 60_000
/** Nor the orderly end of a server. */
const LONGEST_STOP_MS = 60_000

export interface LoadOptions {
  readonly folder: string
  readonly random: Random
  readonly durationMs: number
  /** It goes on until this is true, too. */
  readonly isEnough?: (seen: Seen) => boolean
  /** Kill an index process after so long on average. */
  readonly killEveryMs?: number
}

/** How much was done: a run that did nothing shows nothing. */
export interface Seen {
  requests: number
  /** Queries of views that were answered. */
  views: number
  rounds: number
  compactions: number
  kills: number
}

export class IndexLoad {
  readonly #options: LoadOptions
  readonly #server: ServerProcess
  readonly #deadline: number
  readonly problems = new Set<string>()
  readonly seen: Seen = { requests: 0, views: 0, rounds: 0, compactions: 0, kills: 0 }
  #url = ''

  constructor(options: LoadOptions) {
    this.#options = options
    this.#server = new ServerProcess(options.folder)
    this.#deadline = performance.now() + options.durationMs
  }

  /** Each client makes a database with an index, asks it and deletes it, over and over. */
  async createQueryDelete(): Promise<void> {
    await this.#run(Array.from({ length: CLIENTS }, (_, number) => () => this.#lives(`db${number}`)))
    for (const name of this.#left()) this.problems.add(`left behind: ${name}`)
    for (const name of await this.#databasesAfterRestart()) this.problems.add(`came back: ${name}`)
  }

  /** Indexes are compacted while others read and write. */
  async compactBeside(): Promise<void> {
    await this.#run([
      ...Array.from({ length: READERS }, (_, number) => () => this.#read(number)),
      ...Array.from({ length: WRITERS }, (_, number) => () => this.#write(number)),
      () => this.#compact(),
    ])
  }

  async #run(work: readonly (() => Promise<void>)[]): Promise<void> {
    const url = await this.#server.url()
    if (url === undefined) throw new Error(`The server did not start: ${this.#server.complaints}`)
    this.#url = url
    const killer = this.#options.killEveryMs === undefined ? [] : [this.#kill(this.#options.killEveryMs)]
    if (work.length > CLIENTS) await this.#fill()
    await Promise.all([...work.map((each) => each()), ...killer])
    const isRunning = !this.#server.endedByItself
    const isStopped = await Promise.race([this.#server.stop().then(() => true), pause(LONGEST_STOP_MS, false)])
    if (!isRunning) this.problems.add('The server ended by itself.')
    if (isStopped) return
    this.problems.add('The server does not end when it is told to.')
    await this.#server.kill()
  }

  get #isOver(): boolean {
    if (this.#server.endedByItself) return true
    return performance.now() > this.#deadline && (this.#options.isEnough?.(this.seen) ?? true)
  }

  async #lives(name: string): Promise<void> {
    const client = new Client(this.#url)
    const { random } = this.#options
    while (!this.#isOver) {
      await this.#ask(client, 'PUT', `/${name}`, 201)
      await this.#ask(client, 'PUT', `/${name}/${DESIGN}`, 201, SUMS)
      const count = random.chance(0.1) ? 1500 : 1 + random.below(30)
      const docs = Array.from({ length: count }, (_, n) => ({ _id: `doc${n}`, n }))
      await this.#ask(client, 'POST', `/${name}/_bulk_docs`, 201, { docs })
      const query = this.#ask(client, 'GET', `/${name}/${VIEW}`, [200, 404])
      if (random.chance(0.2)) void this.#ask(client, 'POST', `/${name}/_compact/test`, [202, 404], {})
      if (random.chance(0.2)) void this.#ask(client, 'POST', `/${name}/_compact`, [202, 404], {})
      // Sometimes the database goes while its index is being made.
      if (random.chance(0.5)) {
        const reply = await query
        const sum = reply?.status === 200 ? reply.as<{ rows: { value: number }[] }>().rows[0]?.value : undefined
        if (reply && sum !== (count * (count - 1)) / 2) this.problems.add(`GET view: ${reply.status} ${reply.text}`)
      } else await pause(random.below(40))
      const removal = this.#ask(client, 'DELETE', `/${name}`, 200)
      // Also who asks again while it goes.
      const late = this.#ask(client, 'GET', `/${name}/${VIEW}`, [200, 404])
      await Promise.all([removal, late, query])
      this.seen.rounds++
    }
    client.close()
  }

  async #fill(): Promise<void> {
    const client = new Client(this.#url)
    const docs = Array.from({ length: 1500 }, (_, n) => ({ _id: `doc${n}`, n }))
    for (const name of DATABASES) {
      await client.request('PUT', `/${name}`)
      await client.request('PUT', `/${name}/${DESIGN}`, { body: SUMS })
      await client.request('POST', `/${name}/_bulk_docs`, { body: { docs } })
    }
    client.close()
  }

  async #read(number: number): Promise<void> {
    const client = new Client(this.#url)
    for (let round = number; !this.#isOver; round++) {
      const name = DATABASES[round % DATABASES.length]
      const query = round % 5 === 0 ? '?reduce=false' : round % 3 === 0 ? '?group=true' : ''
      await this.#ask(client, 'GET', `/${name}/${VIEW}${query}`, 200)
    }
    client.close()
  }

  async #write(number: number): Promise<void> {
    const client = new Client(this.#url)
    for (let round = number; !this.#isOver; round++) {
      const name = DATABASES[round % DATABASES.length]
      const docs = Array.from({ length: 20 }, (_, i) => ({ n: round + i }))
      await this.#ask(client, 'POST', `/${name}/_bulk_docs`, 201, { docs })
      this.seen.rounds++
    }
    client.close()
  }

  async #compact(): Promise<void> {
    const client = new Client(this.#url)
    for (let round = 0; !this.#isOver; round++) {
      const name = DATABASES[round % DATABASES.length]
      await this.#ask(client, 'POST', `/${name}/_compact/test`, 202, {})
      if (round % 7 === 0) await this.#ask(client, 'POST', `/${name}/_compact`, 202, {})
      this.seen.compactions++
      await pause(5)
    }
    client.close()
  }

  /** A reply, unless there was none. */
  async #ask(
    client: Client,
    method: string,
    path: string,
    expected: number | readonly number[],
    body?: unknown,
  ): Promise<Reply | undefined> {
    this.seen.requests++
    const replied = client.request(method, path, body === undefined ? {} : { body })
    const reply = await Promise.race([
      replied.catch((error: unknown) => String(error)),
      pause(LONGEST_REPLY_MS, 'no reply', { ref: false }),
    ])
    const what = `${method} ${path.replace(/\d/g, '#')}`
    if (typeof reply === 'string') {
      this.problems.add(`${what}: ${reply}`)
      return undefined
    }
    if (reply.status === 200 && path.includes('/_view/')) this.seen.views++
    if (![expected].flat().includes(reply.status)) this.problems.add(`${what}: ${reply.status} ${reply.text.trim()}`)
    return reply
  }

  /** The next one only when clients got on: where runs take longer than the time between two kills none would ever end. */
  async #kill(everyMs: number): Promise<void> {
    while (!this.#isOver) {
      for (const served = this.seen.views; !this.#isOver && this.seen.views < served + VIEWS_BETWEEN_KILLS; )
        await pause(5)
      await pause(2 * everyMs * this.#options.random.next())
      const pids = this.#server.childrenCalled('settle-index')
      const pid = pids[this.#options.random.below(Math.max(1, pids.length))]
      if (pid === undefined) continue
      try {
        process.kill(pid, 'SIGKILL')
        this.seen.kills++
      } catch {
        // It has just ended.
      }
    }
  }

  /** What lies in the folder of databases that were all deleted. */
  #left(): string[] {
    const { folder } = this.#options
    const files = readdirSync(folder, { recursive: true, encoding: 'utf8' })
    return files.filter((name) => /(^|\/)db\d/.test(name))
  }

  async #databasesAfterRestart(): Promise<string[]> {
    const server = new ServerProcess(this.#options.folder)
    try {
      const url = await server.url()
      if (url === undefined) return ['nothing: the server did not start again.']
      const client = new Client(url)
      const names = (await client.request('GET', '/_all_dbs')).as<string[]>()
      client.close()
      return names.filter((name) => !name.startsWith('_'))
    } finally {
      await server.stop()
    }
  }
}
