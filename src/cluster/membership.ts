/**
 * A secondary's end of a cluster on one machine. It connects to the primary, and again whenever the channel breaks. With each
 * connection it gets the whole state. A primary of an earlier term is ignored.
 */
import { createConnection } from 'node:net'
import { type CallOptions, Channel, NodeUnreachableError } from './channel.ts'

export interface MembershipOptions {
  /** The primary's socket. */
  readonly path: string
  /** The whole state, with every connection. */
  welcome(state: unknown): Promise<void>
  /** After the state, in order. Must not throw. */
  signal(message: unknown): void
  /** A notice or a request of the primary. */
  call(message: unknown): Promise<unknown>
  /** The primary is gone: changes from now on are missed. */
  lost(): void
}

const RETRY_MS = 20

export class Membership {
  readonly #options: MembershipOptions
  #channel: Channel | undefined
  /** The channel whose state is being applied. */
  #joining: Channel | undefined
  #term = 0
  #isClosed = false
  #retry: NodeJS.Timeout | undefined
  #connected = Promise.withResolvers<void>()

  constructor(options: MembershipOptions) {
    this.#options = options
    this.#connect()
  }

  /** Of the current or the last primary. */
  get term(): number {
    return this.#term
  }

  get isConnected(): boolean {
    return this.#channel !== undefined
  }

  /** Resolves when it is connected to a primary and has its state. */
  async connected(signal?: AbortSignal): Promise<void> {
    while (!this.#channel) {
      signal?.throwIfAborted()
      const aborted = Promise.withResolvers<void>()
      const abort = () => aborted.reject(signal?.reason)
      signal?.addEventListener('abort', abort)
      try {
        await Promise.race([this.#connected.promise, aborted.promise])
      } finally {
        signal?.removeEventListener('abort', abort)
      }
    }
  }

  /** Whether it has a channel to a primary, or is applying the state of one. */
  get isJoined(): boolean {
    return this.isConnected || this.#joining !== undefined
  }

  send(message: unknown): void {
    this.#channel?.send(message)
  }

  /** Also while the state is being applied. */
  sendEarly(message: unknown): void {
    const channel = this.#channel ?? this.#joining
    channel?.send(message)
  }

  /** Rejects with `NodeUnreachableError` where there is no primary. */
  async call(message: unknown, options?: CallOptions): Promise<unknown> {
    if (!this.#channel) throw unreachable()
    return this.#channel.call(message, options)
  }

  /** The same while the state is being applied, too. */
  async callEarly(message: unknown): Promise<unknown> {
    const channel = this.#channel ?? this.#joining
    if (!channel) throw unreachable()
    return channel.call(message)
  }

  close(): void {
    this.#isClosed = true
    clearTimeout(this.#retry)
    this.#channel?.end()
  }

  #connect(): void {
    const socket = createConnection(this.#options.path)
    let isWelcomed = false
    // Messages that arrive while the state is applied wait for that.
    let ready: Promise<void> = Promise.resolve()
    let isReady = false
    const channel: Channel = new Channel(socket, {
      signal: (message) => {
        if (isReady) this.#options.signal(message)
        else if (isWelcomed) void ready.then(() => this.#options.signal(message))
        else {
          isWelcomed = true
          ready = this.#welcome(channel, message).then(() => {
            isReady = true
          })
          ready.catch(() => channel.destroy())
        }
      },
      call: async (message) => {
        await ready
        return this.#options.call(message)
      },
      closed: () => this.#closed(channel),
    })
  }

  async #welcome(channel: Channel, message: unknown): Promise<void> {
    if (!isWelcome(message) || message.term < this.#term) throw new Error('It is not the primary.')
    this.#term = message.term
    this.#joining = channel
    try {
      await this.#options.welcome(message.state)
    } finally {
      if (this.#joining === channel) this.#joining = undefined
    }
    if (channel.isClosed || this.#isClosed) return
    this.#channel = channel
    this.#connected.resolve()
  }

  #closed(channel: Channel): void {
    if (this.#joining === channel) this.#joining = undefined
    if (this.#channel === channel) {
      this.#channel = undefined
      this.#connected = Promise.withResolvers()
      this.#options.lost()
    }
    if (!this.#isClosed) this.#retry = setTimeout(() => this.#connect(), RETRY_MS)
  }
}

function unreachable(): NodeUnreachableError {
  return new NodeUnreachableError('The primary node cannot be reached.')
}

function isWelcome(message: unknown): message is { readonly term: number; readonly state: unknown } {
  return typeof message === 'object' && message !== null && 'term' in message && typeof message.term === 'number'
}
