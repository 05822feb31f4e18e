/**
 * Clients of a server with several nodes, each on connections of its own: they edit a few documents by compare-and-set, read
 * them and follow their changes, while nodes are killed. What they saw must be as if there were one node.
 *
 * Revisions of a document have numbers that go up by one, so a history is linearisable when no operation that begins after
 * another one has ended sees a lower number, no number is acknowledged twice, and none is seen that nobody wrote.
 */
import { Agent, request as httpRequest } from 'node:http'

export interface HistoryOptions {
  readonly url: string
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

/** What is known of one document. */
interface Register {
  /** The highest number that an operation has ended with. */
  seen: number
  /** The revision and the writer of each number that was acknowledged. */
  readonly acknowledged: Map<number, string>
  /** How many writes were begun: no number can be higher. */
  begun: number
}

export class History {
  readonly #options: HistoryOptions
  readonly #registers: Register[]
  readonly problems: string[] = []
  readonly #stopping = new AbortController()
  readonly #clients: Promise<void>[] = []
  readonly #feeds: FeedReader[] = []
  acknowledged = 0
  reads = 0
  refused = 0
  broken = 0

  constructor(options: HistoryOptions) {
    this.#options = options
    const { documents = 4 } = options
    this.#registers = Array.from({ length: documents }, () => ({ seen: 0, acknowledged: new Map(), begun: 0 }))
  }

  async begin(): Promise<void> {
    const { writers = 4, readers = 4, feeds = 2, database } = this.#options
    await this.#request(new Agent(), 'PUT', `/${database}`)
    for (let i = 0; i < writers; i++) this.#clients.push(this.#repeat((agent) => this.#edit(agent, i)))
    for (let i = 0; i < readers; i++) this.#clients.push(this.#repeat((agent) => this.#read(agent)))
    for (let i = 0; i < feeds; i++) this.#feeds.push(new FeedReader(this.#options, this.problems))
  }

  /** Lets everybody finish, and holds what the server has against what it acknowledged. */
  async end(): Promise<void> {
    this.#stopping.abort()
    await Promise.all(this.#clients)
    const agent = new Agent()
    for (const [i, register] of this.#registers.entries()) {
      const { status, text } = await this.#persist(agent, `/${this.#options.database}/${nameOf(i)}?revs=true`)
      if (status === 404 && register.seen === 0) continue
      const { _rev, _revisions } = JSON.parse(text)
      const number = Number.parseInt(_rev, 10)
      if (number < register.seen) this.problems.push(`${nameOf(i)} is at ${number}, and ${register.seen} was seen.`)
      const line: string[] = _revisions.ids.map((id: string, at: number) => `${_revisions.start - at}-${id}`)
      for (const [generation, rev] of register.acknowledged) {
        const isOld = generation <= _revisions.start - line.length
        if (!isOld && !line.includes(rev)) this.problems.push(`${nameOf(i)} has lost ${rev}.`)
      }
      for (const feed of this.#feeds) await feed.reach(nameOf(i), _rev)
    }
    for (const feed of this.#feeds) feed.end()
    agent.destroy()
  }

  async #repeat(step: (agent: Agent) => Promise<void>): Promise<void> {
    while (!this.#stopping.signal.aborted) {
      // A connection of its own for some steps: to this node or that one.
      const agent = new Agent({ keepAlive: true, maxSockets: 1 })
      for (let i = 0; i < 5 && !this.#stopping.signal.aborted; i++) {
        try {
          await step(agent)
        } catch {
          this.broken++
          await new Promise((resolve) => setTimeout(resolve, 5))
          break
        }
      }
      agent.destroy()
    }
  }

  async #read(agent: Agent): Promise<void> {
    const { index, register } = this.#choose()
    const seen = register.seen
    const { status, text } = await this.#request(agent, 'GET', `/${this.#options.database}/${nameOf(index)}`)
    if (status === 404) this.#look(index, seen, 0)
    else if (status === 200) this.#look(index, seen, Number.parseInt(JSON.parse(text)._rev, 10))
    else this.#refuse('GET', { status, text })
    this.reads++
  }

  async #edit(agent: Agent, writer: number): Promise<void> {
    const { index, register } = this.#choose()
    const path = `/${this.#options.database}/${nameOf(index)}`
    const seen = register.seen
    const before = await this.#request(agent, 'GET', path)
    if (before.status !== 200 && before.status !== 404) return this.#refuse('GET', before)
    const rev: string | undefined = before.status === 404 ? undefined : JSON.parse(before.text)._rev
    const number = rev === undefined ? 0 : Number.parseInt(rev, 10)
    this.#look(index, seen, number)
    register.begun++
    const body = JSON.stringify({ _rev: rev, writer, n: number + 1 })
    const after = await this.#request(agent, 'PUT', path, body)
    if (after.status === 409) return undefined
    if (after.status !== 201) return this.#refuse('PUT', after)
    const written: string = JSON.parse(after.text).rev
    const other = register.acknowledged.get(number + 1)
    if (other !== undefined) this.problems.push(`${nameOf(index)} got ${written} beside ${other}.`)
    register.acknowledged.set(number + 1, written)
    register.seen = Math.max(register.seen, number + 1)
    this.acknowledged++
  }

  #look(index: number, before: number, number: number): void {
    const register = this.#registers[index]!
    if (number < before) this.problems.push(`${nameOf(index)} was ${number} after ${before} was seen.`)
    if (number > register.begun) this.problems.push(`${nameOf(index)} is ${number}, and nobody wrote that.`)
    register.seen = Math.max(register.seen, number)
  }

  /** A node may be away for a moment, and says so. */
  #refuse(method: string, { status, text, headers }: { status: number; text: string; headers?: object }): void {
    this.refused++
    const isClear = status === 503 && (headers === undefined || 'retry-after' in headers)
    if (!isClear) this.problems.push(`${method} gave ${status}: ${text}`)
  }

  #choose(): { index: number; register: Register } {
    const index = Math.floor(Math.random() * this.#registers.length)
    return { index, register: this.#registers[index]! }
  }

  async #persist(agent: Agent, path: string): Promise<Answer> {
    for (let attempt = 1; ; attempt++) {
      try {
        const answer = await this.#request(agent, 'GET', path)
        if (answer.status !== 503) return answer
      } catch (error) {
        if (attempt === 100) throw error
      }
      await new Promise((resolve) => setTimeout(resolve, 100))
    }
  }

  #request(agent: Agent, method: string, path: string, body?: string): Promise<Answer> {
    const { hostname, port } = new URL(this.#options.url)
    const headers = body === undefined ? {} : { 'Content-Type': 'application/json' }
    return new Promise((resolve, reject) => {
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
      outgoing.on('error', reject).end(body)
    })
  }
}

function nameOf(index: number): string {
  return `document-${index}`
}

/** Follows the changes of a database over any number of connections, and misses nothing nor receives anything twice. */
class FeedReader {
  readonly #options: HistoryOptions
  readonly #problems: string[]
  readonly #last = new Map<string, string>()
  #since = 0
  #isEnded = false
  #close: () => void = () => {}

  constructor(options: HistoryOptions, problems: string[]) {
    this.#options = options
    this.#problems = problems
    void this.#follow()
  }

  /** Resolves when it has heard of the revision. */
  async reach(id: string, rev: string): Promise<void> {
    const deadline = Date.now() + (this.#options.patienceMs ?? 30_000)
    while (this.#last.get(id) !== rev) {
      if (Date.now() > deadline) {
        this.#problems.push(`A feed has not heard of ${id} ${rev}; it knows ${this.#last.get(id)}.`)
        return
      }
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
  }

  end(): void {
    this.#isEnded = true
    this.#close()
  }

  async #follow(): Promise<void> {
    while (!this.#isEnded) {
      await this.#connection()
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
  }

  /** One connection, until it breaks. */
  #connection(): Promise<void> {
    const { url, database } = this.#options
    const { hostname, port } = new URL(url)
    const path = `/${database}/_changes?feed=continuous&heartbeat=1000&since=${this.#since}`
    return new Promise((resolve) => {
      const outgoing = httpRequest({ agent: false, hostname, port, path }, (response) => {
        let rest = ''
        response
          .setEncoding('utf8')
          .on('data', (piece: string) => {
            const lines = `${rest}${piece}`.split('\n')
            rest = lines.pop() ?? ''
            if (response.statusCode === 200) for (const line of lines) this.#hear(line.trim())
          })
          .on('error', () => {})
          .on('close', resolve)
      })
      this.#close = () => outgoing.destroy()
      outgoing.on('error', () => resolve()).end()
    })
  }

  #hear(line: string): void {
    if (line === '') return
    const { seq, id, changes } = JSON.parse(line)
    if (seq === undefined) return
    if (seq <= this.#since) this.#problems.push(`A feed gave sequence ${seq} after ${this.#since}.`)
    this.#since = seq
    const rev: string = changes[0].rev
    const before = this.#last.get(id)
    if (before !== undefined && Number.parseInt(rev, 10) <= Number.parseInt(before, 10)) {
      this.#problems.push(`A feed gave ${id} ${rev} after ${before}.`)
    }
    this.#last.set(id, rev)
  }
}
