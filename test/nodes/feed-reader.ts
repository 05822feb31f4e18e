/** Follows the changes of a database over any number of connections, each from where the one before ended. */
import { request as httpRequest } from 'node:http'

export interface FeedReaderOptions {
  /** Where the next connection goes. */
  url(): string
  readonly database: string
  /** How long it may take to read the last changes. */
  readonly patienceMs: number
  readonly problems: string[]
  heard(id: string, rev: string): void
}

const HEARTBEAT_MS = 1000

export class FeedReader {
  readonly #options: FeedReaderOptions
  readonly #last = new Map<string, string>()
  #since = 0
  #isEnded = false
  /** It has missed a change: the others are not waited for. */
  #isLate = false
  #close: () => void = () => {}
  readonly #following: Promise<void>

  constructor(options: FeedReaderOptions) {
    this.#options = options
    this.#following = this.#follow()
  }

  /** Resolves when it has read the revision. */
  async reach(id: string, rev: string): Promise<void> {
    const deadline = Date.now() + this.#options.patienceMs
    while (this.#last.get(id) !== rev) {
      if (this.#isLate) return
      if (Date.now() > deadline) {
        this.#isLate = true
        this.#options.problems.push(`A feed has not heard of ${id} ${rev}; it knows ${this.#last.get(id)}.`)
        return
      }
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
  }

  async end(): Promise<void> {
    this.#isEnded = true
    this.#close()
    await this.#following
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
    const { hostname, port } = new URL(url())
    const path = `/${database}/_changes?feed=continuous&heartbeat=${HEARTBEAT_MS}&since=${this.#since}`
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
      // A node that is stopped or was killed sends no heartbeats.
      outgoing.setTimeout(10 * HEARTBEAT_MS, () => outgoing.destroy())
      this.#close = () => outgoing.destroy()
      outgoing.on('error', () => resolve()).end()
    })
  }

  #hear(line: string): void {
    if (line === '') return
    const { seq, id, changes } = JSON.parse(line)
    if (seq === undefined) return
    const { problems, heard } = this.#options
    if (seq <= this.#since) problems.push(`A feed gave sequence ${seq} after ${this.#since}.`)
    this.#since = seq
    const rev: string = changes[0].rev
    const before = this.#last.get(id)
    if (before !== undefined && Number.parseInt(rev, 10) <= Number.parseInt(before, 10)) {
      problems.push(`A feed gave ${id} ${rev} after ${before}.`)
    }
    this.#last.set(id, rev)
    heard(id, rev)
  }
}
