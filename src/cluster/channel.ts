/**
 * A channel between two nodes, over a socket: signals, which arrive in the order in which they were sent, and calls, which
 * have a deadline. When the socket closes every call under way fails: a node that dies keeps nobody waiting.
 */
import type { Socket } from 'node:net'
import { deserialize, serialize } from 'node:v8'

/** The other node is gone, or did not answer in time. Whether it has done what it was asked for is not known. */
export class NodeUnreachableError extends Error {}

/** The other node tried, and failed. */
export class CallFailedError extends Error {}

export interface ChannelHandler {
  /** A message without a reply. Must not throw. */
  signal(message: unknown): void
  /** Resolves to what the caller gets. The signal aborts when the caller is gone. */
  call(message: unknown, signal: AbortSignal): Promise<unknown>
  /** The channel is closed. Called once. */
  closed(): void
}

type Frame =
  | { readonly type: 'signal'; readonly message: unknown }
  | { readonly type: 'call'; readonly id: number; readonly message: unknown }
  | { readonly type: 'ping'; readonly id: number }
  | { readonly type: 'cancel'; readonly id: number }
  | { readonly type: 'result'; readonly id: number; readonly value: unknown }
  | { readonly type: 'failure'; readonly id: number; readonly reason: string }

interface PendingCall {
  readonly resolve: (value: unknown) => void
  readonly reject: (error: Error) => void
}

export interface ChannelOptions {
  /** The channel is closed when a message has more bytes. */
  readonly largestFrameBytes?: number
}

export interface CallOptions {
  readonly timeoutMs?: number
  readonly signal?: AbortSignal | undefined
}

const LENGTH_BYTES = 4
/** The list of a hundred thousand databases takes some ten megabytes. */
const LARGEST_FRAME_BYTES = 512 * 1024 * 1024

export class Channel {
  readonly #socket: Socket
  readonly #handler: ChannelHandler
  readonly #largestFrameBytes: number
  readonly #calls = new Map<number, PendingCall>()
  readonly #serving = new Map<number, AbortController>()
  #received: Buffer[] = []
  #receivedBytes = 0
  #lastId = 0
  #isClosed = false

  /** Owns the socket from now on. */
  constructor(socket: Socket, handler: ChannelHandler, options: ChannelOptions = {}) {
    this.#socket = socket
    this.#handler = handler
    this.#largestFrameBytes = options.largestFrameBytes ?? LARGEST_FRAME_BYTES
    socket.on('data', (bytes) => this.#receive(bytes))
    // At once, not when the socket is closed: requests that arrived meanwhile are handled after this turn.
    for (const event of ['end', 'error', 'close'] as const) socket.on(event, () => this.#close())
  }

  get isClosed(): boolean {
    return this.#isClosed
  }

  /** Bytes that are not yet written to the socket: the other node does not read. */
  get queuedBytes(): number {
    return this.#socket.writableLength
  }

  send(message: unknown): void {
    this.#write({ type: 'signal', message })
  }

  /** Rejects with `NodeUnreachableError`, `CallFailedError`, or the reason of the caller's own signal. */
  call(message: unknown, options: CallOptions = {}): Promise<unknown> {
    return this.#ask((id) => ({ type: 'call', id, message }), options)
  }

  /** Resolves when the other node's event loop has answered, whatever else it waits for. Rejects as `call` does. */
  async ping(timeoutMs: number): Promise<void> {
    await this.#ask((id) => ({ type: 'ping', id }), { timeoutMs })
  }

  /** Sends what is written, then closes. */
  end(): void {
    this.#socket.end()
  }

  destroy(): void {
    this.#socket.destroy()
  }

  #ask(frameOf: (id: number) => Frame, { timeoutMs, signal }: CallOptions): Promise<unknown> {
    if (this.#isClosed) return Promise.reject(unreachable())
    if (signal?.aborted) return Promise.reject(signal.reason)
    const id = ++this.#lastId
    const { promise, resolve, reject } = Promise.withResolvers<unknown>()
    this.#calls.set(id, { resolve, reject })
    this.#write(frameOf(id))
    const cancel = (error: unknown) => {
      this.#write({ type: 'cancel', id })
      reject(error)
    }
    const late = () => {
      if (this.#calls.has(id)) cancel(new NodeUnreachableError(`A node did not answer within ${timeoutMs} ms.`))
    }
    // After what has arrived was read: it may be this process that was stopped, or had no processor, for so long.
    const timer = timeoutMs === undefined ? undefined : setTimeout(() => setImmediate(late), timeoutMs)
    const onAbort = () => cancel(signal?.reason)
    signal?.addEventListener('abort', onAbort)
    return promise.finally(() => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', onAbort)
      this.#calls.delete(id)
    })
  }

  #write(frame: Frame): void {
    if (this.#isClosed || this.#socket.destroyed) return
    const body = serialize(frame)
    const length = Buffer.allocUnsafe(LENGTH_BYTES)
    length.writeUInt32BE(body.length)
    this.#socket.cork()
    this.#socket.write(length)
    this.#socket.write(body)
    process.nextTick(() => this.#socket.uncork())
  }

  #receive(bytes: Buffer): void {
    this.#received.push(bytes)
    this.#receivedBytes += bytes.length
    while (this.#receivedBytes >= LENGTH_BYTES) {
      const sizeBytes = this.#peekLength()
      if (sizeBytes > this.#largestFrameBytes) {
        this.destroy()
        return
      }
      if (this.#receivedBytes < LENGTH_BYTES + sizeBytes) return
      const all = this.#joined()
      const end = LENGTH_BYTES + sizeBytes
      const frame = parsedFrame(all.subarray(LENGTH_BYTES, end))
      this.#received = end < all.length ? [all.subarray(end)] : []
      this.#receivedBytes = all.length - end
      if (!frame) {
        this.destroy()
        return
      }
      this.#handle(frame)
    }
  }

  #peekLength(): number {
    const [first] = this.#received
    return (first && first.length >= LENGTH_BYTES ? first : this.#joined()).readUInt32BE()
  }

  #joined(): Buffer {
    const [first] = this.#received
    if (first && this.#received.length === 1) return first
    const all = Buffer.concat(this.#received)
    this.#received = [all]
    return all
  }

  #handle(frame: Frame): void {
    switch (frame.type) {
      case 'signal':
        this.#handler.signal(frame.message)
        break
      case 'call':
        void this.#serve(frame.id, frame.message)
        break
      case 'ping':
        this.#write({ type: 'result', id: frame.id, value: undefined })
        break
      case 'cancel':
        this.#serving.get(frame.id)?.abort(unreachable())
        break
      case 'result':
        this.#calls.get(frame.id)?.resolve(frame.value)
        break
      case 'failure':
        this.#calls.get(frame.id)?.reject(new CallFailedError(frame.reason))
        break
    }
  }

  async #serve(id: number, message: unknown): Promise<void> {
    const cancelling = new AbortController()
    this.#serving.set(id, cancelling)
    try {
      this.#write({ type: 'result', id, value: await this.#handler.call(message, cancelling.signal) })
    } catch (error) {
      this.#write({ type: 'failure', id, reason: error instanceof Error ? error.message : String(error) })
    } finally {
      this.#serving.delete(id)
    }
  }

  #close(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#socket.destroy()
    for (const { reject } of this.#calls.values()) reject(unreachable())
    for (const cancelling of this.#serving.values()) cancelling.abort(unreachable())
    this.#handler.closed()
  }
}

/** Undefined where the other end speaks another protocol: it must not take this process down. */
function parsedFrame(bytes: Buffer): Frame | undefined {
  try {
    const frame: unknown = deserialize(bytes)
    return isFrame(frame) ? frame : undefined
  } catch {
    return undefined
  }
}

function isFrame(frame: unknown): frame is Frame {
  if (typeof frame !== 'object' || frame === null || !('type' in frame)) return false
  return frame.type === 'signal' || ('id' in frame && typeof frame.id === 'number')
}

function unreachable(): NodeUnreachableError {
  return new NodeUnreachableError('The other node is gone.')
}
