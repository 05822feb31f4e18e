/**
 * Clients of a server with several nodes, each on connections of its own to any of them: they edit a few documents by compare-and-set,
 * read them, add others, and follow the changes, while nodes fail. What they saw must be as if there were one node.
 */
import { Agent, request as httpRequest } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'
import { FeedReader } from './feed-reader.ts'
import { Register } from './register.ts'

export interface HistoryOptions {
  /** The addresses of the nodes, as they are now. Each connection goes to one of them. */
  urls(): readonly string[]
  readonly database: string
  readonly documents?: number
  readonly writers?: number
  readonly readers?: number
  readonly feeds?: number
  /** How long a feed may take to hear of the last edits. */
  readonly patienceMs?: number
}

interface Answer {
  readonly status: number
  readonly headers: Record<string, unknown>
  readonly text: string
}

/** Far longer than any fault. On a machine with a load of 30 a node takes 80 s to start. */
const STANDSTILL_MS = 300_000
/** Of the edits, those that add a document. */
const ADDED_SHARE = 0.3
/** For a connection that was refused or broken. */
const RETRY_MS = 20

export class History {
  readonly #options: HistoryOptions
  readonly #registers: Register[]
  /** Each is written once, so each feed must show it once. True where that was acknowledged. */
  readonly #added = new Map<string, boolean>()
  readonly problems: string[] = []
  readonly #stopping = new AbortController()
  readonly #clients: Promise<void>[] = []
  readonly #feeds: FeedReader[] = []
  #attempts = 0
  /** Requests that are not answered yet. */
  readonly #pending = new Set<string>()
  #requests = 0
  acknowledged = 0
  reads = 0
  /** Edits that another one came before. */
  conflicts = 0
  /** Clear refusals of nodes that could not answer. */
  refused = 0
  /** Requests without a reply. */
  broken = 0

  constructor(options: HistoryOptions) {
    this.#options = options
    const { documents = 4 } = options
    this.#registers = Array.from({ length: documents }, (_, i) => new Register(nameOf(i), this.problems))
  }

  async begin(): Promise<void> {
    const { writers = 4, readers = 4, feeds = 2, patienceMs = 30_000, database } = this.#options
    const agent = new Agent()
    await this.#persist(agent, this.#url(), 'PUT', `/${database}`)
    agent.destroy()
    const edit = () => (Math.random() < ADDED_SHARE ? this.#add : this.#edit)
    for (let i = 0; i < writers; i++) this.#clients.push(this.#repeat((agent, url) => edit().call(this, agent, url)))
    for (let i = 0; i < readers; i++) this.#clients.push(this.#repeat((agent, url) => this.#read(agent, url)))
    for (let i = 0; i < feeds; i++) {
      const { problems } = this
      const heard = (id: string, rev: string) => this.#heard(id, rev)
      this.#feeds.push(new FeedReader({ url: () => this.#url(), database, patienceMs, problems, heard }))
    }
  }

  /** Resolves when so many more edits were acknowledged, or there is a problem: then nothing can be relied on any more. */
  async progress(count: number): Promise<void> {
    const wanted = this.acknowledged + count
    let { acknowledged } = this
    let deadline = Date.now() + STANDSTILL_MS
    while (this.acknowledged < wanted && this.problems.length === 0) {
      if (this.acknowledged > acknowledged) {
        acknowledged = this.acknowledged
        deadline = Date.now() + STANDSTILL_MS
      }
      if (Date.now() > deadline) throw new Error(this.#standstill())
      await pause(10)
    }
  }

  /** Lets everybody finish, and compares what each node has with what was acknowledged, unless there are problems already. */
  async end(): Promise<void> {
    this.#stopping.abort()
    await Promise.all(this.#clients)
    if (this.problems.length === 0) for (const url of this.#options.urls()) await this.#compare(url)
    await Promise.all(this.#feeds.map((feed) => feed.end()))
  }

  async #compare(url: string): Promise<void> {
    const agent = new Agent()
    const { database } = this.#options
    for (const [i, register] of this.#registers.entries()) {
      const { status, text } = await this.#persist(agent, url, 'GET', `/${database}/${nameOf(i)}?revs=true`)
      if (status === 404) {
        register.end([])
        continue
      }
      const { _rev, _revisions } = JSON.parse(text)
      register.end(_revisions.ids.map((id: string, at: number) => `${_revisions.start - at}-${id}`))
      for (const feed of this.#feeds) await feed.reach(nameOf(i), _rev)
    }
    const { text } = await this.#persist(agent, url, 'GET', `/${database}/_all_docs?startkey="added"&endkey="addee"`)
    const rows: { id: string; value: { rev: string } }[] = JSON.parse(text).rows
    const found = new Map(rows.map(({ id, value }) => [id, value.rev]))
    for (const [id, isAcknowledged] of this.#added) {
      const rev = found.get(id)
      if (isAcknowledged && rev === undefined) this.problems.push(`${id} is lost.`)
      if (rev !== undefined) for (const feed of this.#feeds) await feed.reach(id, rev)
    }
    agent.destroy()
  }

  #standstill(): string {
    const pending = [...this.#pending].join(', ')
    const counts = `${this.refused} requests were refused, ${this.broken} broken`
    return `Nothing was acknowledged for ${STANDSTILL_MS / 1000} s. ${counts}, and these wait: ${pending}.`
  }

  async #repeat(step: (agent: Agent, url: string) => Promise<void>): Promise<void> {
    while (!this.#stopping.signal.aborted) {
      // A connection of its own for some steps: to this node or that one.
      const agent = new Agent({ keepAlive: true, maxSockets: 1 })
      const url = this.#url()
      for (let i = 0; i < 5 && !this.#stopping.signal.aborted; i++) {
        try {
          await step(agent, url)
        } catch {
          this.broken++
          await pause(RETRY_MS)
          break
        }
      }
      agent.destroy()
    }
  }

  async #read(agent: Agent, url: string): Promise<void> {
    const { path, register } = this.#choose()
    await this.#look(agent, url, path, register)
    this.reads++
  }

  async #edit(agent: Agent, url: string): Promise<void> {
    const { path, register } = this.#choose()
    const before = await this.#look(agent, url, path, register)
    if (before === 'refused') return
    const attempt = `attempt-${++this.#attempts}`
    register.begin(attempt, before.rev)
    const body = JSON.stringify({ _rev: before.rev, attempt })
    const after = await this.#request(agent, url, 'PUT', path, body)
    if (after.status === 409) {
      register.refuse(attempt)
      this.conflicts++
      return
    }
    if (after.status !== 201) return this.#refuse('PUT', after)
    register.acknowledge(attempt, JSON.parse(after.text).rev)
    this.acknowledged++
  }

  async #add(agent: Agent, url: string): Promise<void> {
    const id = `added-${++this.#attempts}`
    this.#added.set(id, false)
    const answer = await this.#request(agent, url, 'PUT', `/${this.#options.database}/${id}`, '{}')
    if (answer.status !== 201) return this.#refuse('PUT', answer)
    this.#added.set(id, true)
    this.acknowledged++
  }

  /** The revision as of now. */
  async #look(agent: Agent, url: string, path: string, register: Register): Promise<{ rev?: string } | 'refused'> {
    const { highest } = register
    const answer = await this.#request(agent, url, 'GET', path)
    if (answer.status === 404) {
      register.see(highest, undefined)
      return {}
    }
    if (answer.status !== 200) {
      await this.#refuse('GET', answer)
      return 'refused'
    }
    const { _rev: rev, attempt } = JSON.parse(answer.text)
    register.see(highest, { rev, attempt })
    return { rev }
  }

  #heard(id: string, rev: string): void {
    const index = this.#registers.findIndex((_, i) => nameOf(i) === id)
    if (index >= 0) this.#registers[index]!.announce(rev)
    else if (!this.#added.has(id)) this.problems.push(`A feed gave ${id}, and nobody wrote that.`)
  }

  /** A node may be unable to answer for a moment, and says so. Whether an edit has happened is not known then. */
  async #refuse(method: string, { status, text, headers }: Answer): Promise<void> {
    this.refused++
    const isClear = status === 503 && 'retry-after' in headers
    if (!isClear) this.problems.push(`${method} gave ${status}: ${text}`)
    await pause(RETRY_MS)
  }

  #choose(): { path: string; register: Register } {
    const index = Math.floor(Math.random() * this.#registers.length)
    return { path: `/${this.#options.database}/${nameOf(index)}`, register: this.#registers[index]! }
  }

  #url(): string {
    const urls = this.#options.urls()
    return urls[Math.floor(Math.random() * urls.length)] ?? ''
  }

  async #persist(agent: Agent, url: string, method: string, path: string): Promise<Answer> {
    const deadline = Date.now() + STANDSTILL_MS
    for (;;) {
      try {
        const answer = await this.#request(agent, url, method, path)
        if (answer.status !== 503) return answer
      } catch (error) {
        if (Date.now() > deadline) throw error
      }
      if (Date.now() > deadline) throw new Error(`${method} ${path} gave 503 for ${STANDSTILL_MS / 1000} s.`)
      await pause(100)
    }
  }

  #request(agent: Agent, url: string, method: string, path: string, body?: string): Promise<Answer> {
    const { hostname, port } = new URL(url)
    const headers = body === undefined ? {} : { 'Content-Type': 'application/json' }
    const name = `${method} ${path} since ${new Date().toISOString()} #${++this.#requests}`
    this.#pending.add(name)
    const answered = new Promise<Answer>((resolve, reject) => {
      const outgoing = httpRequest({ agent, hostname, port, method, path, headers }, (response) => {
        let text = ''
        response
          .setEncoding('utf8')
          .on('data', (piece: string) => {
            text += piece
          })
          .on('error', reject)
          .on('end', () => resolve({ status: response.statusCode ?? 0, headers: response.headers, text }))
          .on('close', () => reject(new Error('The reply broke off.')))
      })
      outgoing.setTimeout(STANDSTILL_MS, () => {
        this.problems.push(`${method} ${path} was not answered for ${STANDSTILL_MS / 1000} s.`)
        outgoing.destroy()
      })
      outgoing.on('error', reject).end(body)
    })
    return answered.finally(() => this.#pending.delete(name))
  }
}

function nameOf(index: number): string {
  return `document-${index}`
}
