/**
 * The primary's end of a cluster on one machine: it listens on a Unix socket, and each secondary is a channel. A secondary
 * that connects gets the whole state first; every signal after that is about a change of it.
 */
import { rm } from 'node:fs/promises'
import { createServer, type Server } from 'node:net'
import { Channel, NodeUnreachableError } from './channel.ts'
import type { Cluster } from './cluster.ts'

export interface HubOptions {
  /** Where the socket is. */
  readonly path: string
  readonly term: number
  /** The first state of a secondary. Read and sent in one turn, so that no signal is lost in between. */
  welcome(): unknown
  /** From a secondary. Must not throw. */
  signal(member: object, message: unknown): void
  call(member: object, message: unknown, signal: AbortSignal): Promise<unknown>
  /** A secondary is gone. */
  left(member: object): void
  /** A secondary does not answer, or does not read. It is disconnected next, and must not continue. */
  stuck(member: object): void
  readonly noticeTimeoutMs?: number
  readonly heartbeat?: Heartbeat
}

/** How often secondaries are pinged, and the timeout of a ping. */
export interface Heartbeat {
  readonly intervalMs: number
  readonly timeoutMs: number
}

/** A node that hangs holds LMDB reader slots, and with them pages of every file, and the connections that it accepted. */
const HEARTBEAT: Heartbeat = { intervalMs: 5_000, timeoutMs: 30_000 }

/** The same as the time that an index process has to end a job. */
const NOTICE_TIMEOUT_MS = 10_000
/** Signals are small. A secondary with a longer queue does not read any more. */
const QUEUE_LIMIT_BYTES = 16 * 1024 * 1024

export class PrimaryHub implements Cluster {
  readonly term: number
  readonly #options: HubOptions
  readonly #server: Server
  readonly #members = new Set<Channel>()
  readonly #heartbeat: NodeJS.Timeout

  static async open(options: HubOptions): Promise<PrimaryHub> {
    // A primary that was killed leaves its socket file behind.
    await rm(options.path, { force: true })
    const hub = new PrimaryHub(options)
    await new Promise<void>((resolve, reject) => {
      hub.#server.once('error', reject).listen(options.path, resolve)
    })
    // A connection that is not accepted for lack of descriptors is tried again.
    hub.#server.removeAllListeners('error').on('error', () => {})
    return hub
  }

  private constructor(options: HubOptions) {
    this.term = options.term
    this.#options = options
    this.#server = createServer((socket) => {
      const member: Channel = new Channel(socket, {
        signal: (message) => options.signal(member, message),
        call: (message, signal) => options.call(member, message, signal),
        closed: () => {
          this.#members.delete(member)
          options.left(member)
        },
      })
      member.send({ term: options.term, state: options.welcome() })
      this.#members.add(member)
    })
    const { intervalMs, timeoutMs } = options.heartbeat ?? HEARTBEAT
    this.#heartbeat = setInterval(() => {
      for (const member of this.#members) void member.ping(timeoutMs).catch(() => this.#cutOff(member))
    }, intervalMs).unref()
  }

  get size(): number {
    return this.#members.size
  }

  publish(signalFor: (member: object) => unknown): void {
    for (const member of this.#members) {
      const signal = signalFor(member)
      if (signal !== undefined) member.send(signal)
      if (member.queuedBytes > QUEUE_LIMIT_BYTES) this.#cutOff(member)
    }
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

  /** The answer of one secondary. Rejects when it is gone. */
  async ask(member: object, request: unknown): Promise<unknown> {
    for (const each of this.#members) if (each === member) return each.call(request)
    throw new NodeUnreachableError('The secondary is gone.')
  }

  /** Closes all channels; secondaries then wait for the next primary. */
  async close(): Promise<void> {
    clearInterval(this.#heartbeat)
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
      this.#cutOff(member)
    }
  }

  /** It is gone, or must not continue with a stale state. */
  #cutOff(member: Channel): void {
    if (!this.#members.delete(member)) return
    this.#options.stuck(member)
    member.destroy()
  }
}
