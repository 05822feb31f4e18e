/**
 * The primary's end of a cluster on one machine: it listens on a Unix socket, and each secondary is a channel. A secondary
 * that connects gets the whole state first; every signal after that is about a change of it.
 */
import { rm } from 'node:fs/promises'
import { createServer, type Server } from 'node:net'
import { Channel } from './channel.ts'
import type { Cluster } from './cluster.ts'

export interface HubOptions {
  /** Where the socket is. */
  readonly path: string
  readonly term: number
  /** The state that a secondary begins with. Taken and sent at once, so that no signal is lost between. */
  welcome(): unknown
  /** From a secondary. Must not throw. */
  signal(member: object, message: unknown): void
  call(message: unknown, signal: AbortSignal): Promise<unknown>
  /** A secondary is gone. */
  left(member: object): void
  /** A secondary did not take a notice over in time, and is about to be cut off. It must not go on. */
  stuck(member: object): void
  readonly noticeTimeoutMs?: number
}

/** As long as an index process has to end a job. */
const NOTICE_TIMEOUT_MS = 10_000

export class PrimaryHub implements Cluster {
  readonly term: number
  readonly #options: HubOptions
  readonly #server: Server
  readonly #members = new Set<Channel>()

  static async open(options: HubOptions): Promise<PrimaryHub> {
    // A primary that was killed leaves its socket behind.
    await rm(options.path, { force: true })
    const hub = new PrimaryHub(options)
    await new Promise<void>((resolve, reject) => {
      hub.#server.once('error', reject).listen(options.path, resolve)
    })
    return hub
  }

  private constructor(options: HubOptions) {
    this.term = options.term
    this.#options = options
    this.#server = createServer((socket) => {
      const member: Channel = new Channel(socket, {
        signal: (message) => options.signal(member, message),
        call: (message, signal) => options.call(message, signal),
        closed: () => {
          this.#members.delete(member)
          options.left(member)
        },
      })
      member.send({ term: options.term, state: options.welcome() })
      this.#members.add(member)
    })
  }

  get size(): number {
    return this.#members.size
  }

  publish(signal: unknown): void {
    for (const member of this.#members) member.send(signal)
  }

  announce(notice: unknown): Promise<void> | undefined {
    if (this.#members.size === 0) return undefined
    return Promise.all([...this.#members].map((member) => this.#notify(member, notice))).then(() => {})
  }

  async gather(request: unknown): Promise<unknown[]> {
    const timeoutMs = this.#options.noticeTimeoutMs ?? NOTICE_TIMEOUT_MS
    const answers = await Promise.allSettled([...this.#members].map((member) => member.call(request, { timeoutMs })))
    return answers.flatMap((answer) => (answer.status === 'fulfilled' ? [answer.value] : []))
  }

  /** Secondaries notice that their channels are closed, and wait for the next primary. */
  async close(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()))
    for (const member of this.#members) member.destroy()
    await closed
    await rm(this.#options.path, { force: true })
  }

  async #notify(member: Channel, notice: unknown): Promise<void> {
    const timeoutMs = this.#options.noticeTimeoutMs ?? NOTICE_TIMEOUT_MS
    try {
      await member.call(notice, { timeoutMs })
    } catch {
      // It is gone, or must not go on with what it knows.
      if (!member.isClosed) this.#options.stuck(member)
      member.destroy()
    }
  }
}
