/**
 * The reply to one request. Its head is sent with the first piece of its body: a small reply is one write. A body of
 * unknown size is sent chunked, or ends with the connection for HTTP/1.0 clients.
 */
import { STATUS_CODES } from 'node:http'
import { freeBytes } from '../encoding/bytes/byte-sink.ts'
import { isHeaderName, isHeaderValue, type Refusal } from './request.ts'

/** The connection, as its reply uses it. */
export interface ReplySink {
  readonly isOpen: boolean
  /** Whether another request can follow on the connection. */
  readonly canKeepAlive: boolean
  /**
   * A string is latin1. False when the socket's buffer is full: see `drained`. `written` is called when the bytes are with the
   * system and the buffer is not used any more, or with an error.
   */
  write(bytes: string | Buffer, written?: (error?: Error | null) => void): boolean
  /** What is written until `uncork` is sent together. */
  cork(): void
  uncork(): void
  /** Resolves when the socket's buffer is drained, or the connection is closed. */
  drained(): Promise<void>
  /** The reply is written. */
  done(): void
  /** Ends the connection at once. */
  destroy(): void
}

export interface ReplyOptions {
  /** The request was a HEAD request. */
  readonly isHeadOnly: boolean
  readonly isHttp10: boolean
  readonly keepsAlive: boolean
}

/** How the client knows where the body ends. */
type Framing = 'no body' | 'size' | 'chunks' | 'close'

/** A body up to this size is sent in one write with the head. */
const ONE_WRITE_BYTES = 64 * 1024
const LAST_CHUNK = '0\r\n\r\n'

export class Reply {
  readonly #sink: ReplySink
  readonly #isHeadOnly: boolean
  readonly #isHttp10: boolean
  /** Whether the connection is kept alive. Must be set before the head is fixed. */
  keepsAlive: boolean
  #framing: Framing = 'no body'
  /** The head, while it is not sent. */
  #head = ''
  /** Of a body with a Content-Length: bytes that are still to be written. */
  #remainingBytes = 0
  #state: 'new' | 'begun' | 'ended' | 'closed' = 'new'
  #isShuttingDown = false
  #closeListeners: Set<() => void> | undefined
  #goneListeners: Set<() => void> | undefined
  #shutdownListeners: Set<() => void> | undefined
  #isClientDone = false
  #clientDoneListeners: Set<() => void> | undefined

  constructor(sink: ReplySink, { isHeadOnly, isHttp10: isOldVersion, keepsAlive }: ReplyOptions) {
    this.#sink = sink
    this.#isHeadOnly = isHeadOnly
    this.#isHttp10 = isOldVersion
    this.keepsAlive = keepsAlive
  }

  /** Whether nothing more can be sent. */
  get isGone(): boolean {
    return this.#state === 'closed' || !this.#sink.isOpen
  }

  /** Whether its head is fixed. */
  get isBegun(): boolean {
    return this.#state === 'begun'
  }

  /** Whether pieces go out as chunks. */
  get isChunked(): boolean {
    return this.#framing === 'chunks'
  }

  /** A whole reply. The head is made of `headerLine`s. An unsized one is framed as if its size were not known. */
  send(status: number, head: string, body: string | Buffer, isUnsized = false): void {
    const sizeBytes = typeof body === 'string' ? Buffer.byteLength(body) : body.length
    this.begin(status, head, isUnsized ? undefined : sizeBytes)
    if (this.#framing === 'no body' || sizeBytes > ONE_WRITE_BYTES || this.isGone) {
      this.write(body)
      this.end()
      return
    }
    const isPlain = typeof body === 'string' && sizeBytes === body.length
    const text = isPlain ? body : (typeof body === 'string' ? Buffer.from(body) : body).toString('latin1')
    this.#remainingBytes = 0
    this.#end(this.#takeHead() + (this.isChunked ? onlyChunk(text, sizeBytes) : text))
  }

  /** Fixes the head of a streamed reply. If a size is given, exactly as many bytes must be written. */
  begin(status: number, head: string, sizeBytes?: number): void {
    if (this.#state === 'begun' || this.#state === 'ended') throw new Error('A reply was begun twice.')
    const isBare = status === 204 || status === 304
    const framing = this.#framingFor(sizeBytes)
    this.#framing = isBare || this.#isHeadOnly ? 'no body' : framing
    if (this.#framing === 'close' || !this.#sink.canKeepAlive) this.keepsAlive = false
    if (this.#framing === 'size') this.#remainingBytes = sizeBytes ?? 0
    const size = isBare || sizeBytes === undefined ? '' : `Content-Length: ${sizeBytes}\r\n`
    // HEAD has it too: its head is that of GET.
    const chunks = framing === 'chunks' && !isBare ? 'Transfer-Encoding: chunked\r\n' : ''
    this.#head = `${statusLine(status)}${head}${dateLine()}${size}${chunks}${this.#connectionLine()}\r\n`
    if (this.#state === 'new') this.#state = 'begun'
  }

  /** Sends the head before there is any body. */
  flush(): void {
    if (this.#head !== '' && !this.isGone) this.#sink.write(this.#takeHead())
  }

  /** What is written until the next tick is sent together: one system call, one packet. */
  corkUntilNextTick(): void {
    this.#sink.cork()
    process.nextTick(() => this.#sink.uncork())
  }

  /** A piece of the body. False when `drained` should be awaited before the next one. */
  write(piece: string | Buffer): boolean {
    if (this.#state !== 'begun' || this.isGone) return true
    if (this.#framing === 'no body' || piece.length === 0) return true
    return this.#write(typeof piece === 'string' ? Buffer.from(piece) : piece)
  }

  /** The same. The memory of the piece is freed as soon as it is sent: nobody else may use it. */
  writeOwned(piece: Buffer): boolean {
    if (this.#state !== 'begun' || this.isGone || this.#framing === 'no body' || piece.length === 0) {
      freeBytes(piece)
      return true
    }
    // After an error the socket may still hold it: it is left to garbage collection then.
    return this.#write(piece, (error) => {
      if (!error) freeBytes(piece)
    })
  }

  /** A piece that is framed as a chunk already, for chunked replies. */
  writeChunk(chunk: Buffer): boolean {
    this.flush()
    return this.isGone || this.#sink.write(chunk)
  }

  end(): void {
    if (this.#state !== 'begun') return
    this.#end(this.#takeHead() + (this.isChunked ? LAST_CHUNK : ''))
  }

  /** Resolves when the client has read what was written, or is gone. */
  drained(): Promise<void> {
    return this.#sink.drained()
  }

  /** Cuts the connection: the only way to show that the rest of a reply is missing. */
  destroy(): void {
    this.#sink.destroy()
  }

  /** Whether a handler watches for the end of the client. */
  get isWatched(): boolean {
    return this.#closeListeners !== undefined && this.#closeListeners.size > 0
  }

  /** Whether the server is shutting down. */
  get isShuttingDown(): boolean {
    return this.#isShuttingDown
  }

  /** Calls back when the reply is sent or its connection closed; at once if it is. Returns how to unsubscribe. */
  onClose(listener: () => void): () => void {
    if (this.isGone) return callAtOnce(listener)
    this.#closeListeners ??= new Set()
    return subscribe(this.#closeListeners, listener)
  }

  /** The same, without keeping a half-closed connection short: for callers that do not wait for long. */
  onGone(listener: () => void): () => void {
    if (this.isGone) return callAtOnce(listener)
    this.#goneListeners ??= new Set()
    return subscribe(this.#goneListeners, listener)
  }

  /** Calls back when the listener shuts down, at once if it has. Returns how to unsubscribe. */
  onShutdown(listener: () => void): () => void {
    if (this.#isShuttingDown) return callAtOnce(listener)
    this.#shutdownListeners ??= new Set()
    return subscribe(this.#shutdownListeners, listener)
  }

  /** Calls back when the client has ended its side, at once if it has. Returns how to unsubscribe. */
  onClientDone(listener: () => void): () => void {
    if (this.#isClientDone) return callAtOnce(listener)
    this.#clientDoneListeners ??= new Set()
    return subscribe(this.#clientDoneListeners, listener)
  }

  /** For the connection: the client sends nothing more. It may still read, or be gone. */
  clientDone(): void {
    this.#isClientDone = true
    notifyAll(this.#clientDoneListeners)
    this.#clientDoneListeners = undefined
  }

  /** For the connection: this reply is its last one, and an endless reply should end. */
  shutDown(): void {
    this.keepsAlive = false
    this.#isShuttingDown = true
    notifyAll(this.#shutdownListeners)
    this.#shutdownListeners = undefined
  }

  /** For the connection: nothing more can be sent. */
  close(): void {
    if (this.#state === 'closed') return
    this.#state = 'closed'
    notifyAll(this.#closeListeners)
    this.#closeListeners = undefined
    notifyAll(this.#goneListeners)
    this.#goneListeners = undefined
  }

  #framingFor(sizeBytes: number | undefined): Framing {
    if (sizeBytes !== undefined) return 'size'
    return this.#isHttp10 ? 'close' : 'chunks'
  }

  /** The default of each version is not sent. */
  #connectionLine(): string {
    if (this.keepsAlive) return this.#isHttp10 ? 'Connection: Keep-Alive\r\n' : ''
    return 'Connection: close\r\n'
  }

  #takeHead(): string {
    const head = this.#head
    this.#head = ''
    return head
  }

  #write(bytes: Buffer, written?: (error?: Error | null) => void): boolean {
    if (this.#framing === 'size') {
      this.#remainingBytes -= bytes.length
      if (this.#remainingBytes < 0) throw new Error('A reply is longer than its Content-Length.')
    }
    if (bytes.length <= ONE_WRITE_BYTES) return this.#writeSmall(bytes, written)
    this.#sink.cork()
    const before = this.#takeHead() + (this.isChunked ? chunkBegin(bytes.length) : '')
    if (before !== '') this.#sink.write(before)
    const isTaken = this.#sink.write(bytes, written)
    if (this.isChunked) this.#sink.write('\r\n')
    this.#sink.uncork()
    return isTaken
  }

  #writeSmall(bytes: Buffer, written?: (error?: Error | null) => void): boolean {
    const head = this.#takeHead()
    if (head === '' && !this.isChunked) return this.#sink.write(bytes, written)
    const text = bytes.toString('latin1')
    const isTaken = this.#sink.write(head + (this.isChunked ? `${chunkBegin(bytes.length)}${text}\r\n` : text))
    // It is copied.
    written?.()
    return isTaken
  }

  #end(last: string): void {
    this.#state = 'ended'
    if (this.#remainingBytes > 0) {
      this.#sink.destroy()
      return
    }
    // A callback for the last write is costly: only if there is a listener.
    const hasListeners = this.#closeListeners !== undefined && this.#closeListeners.size > 0
    if (last === '' && hasListeners) this.#sink.write('', () => this.close())
    else if (last !== '') this.#sink.write(last, hasListeners ? () => this.close() : undefined)
    if (!hasListeners) this.#state = 'closed'
    this.#sink.done()
  }
}

function callAtOnce(listener: () => void): () => void {
  listener()
  return () => {}
}

function subscribe(listeners: Set<() => void>, listener: () => void): () => void {
  listeners.add(listener)
  return () => listeners.delete(listener)
}

function notifyAll(listeners: ReadonlySet<() => void> | undefined): void {
  if (listeners) for (const listener of [...listeners]) listener()
}

function chunkBegin(sizeBytes: number): string {
  return `${sizeBytes.toString(16)}\r\n`
}

function onlyChunk(text: string, sizeBytes: number): string {
  return sizeBytes === 0 ? LAST_CHUNK : `${chunkBegin(sizeBytes)}${text}\r\n${LAST_CHUNK}`
}

/** A piece as one chunk, for feeds that send the same piece to many clients. */
export function chunkOf(piece: Buffer): Buffer {
  return Buffer.concat([Buffer.from(chunkBegin(piece.length)), piece, LINE_END])
}

const LINE_END = Buffer.from('\r\n')

/** Hop-by-hop headers. */
export const HOP_BY_HOP_HEADERS: readonly string[] = [
  'connection',
  'keep-alive',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]

/** Headers of a reply that only this server sets: how it is framed, when, by whom and for which request it was made. */
export const OWN_REPLY_HEADERS: readonly string[] = [
  ...HOP_BY_HOP_HEADERS,
  'date',
  'server',
  'x-couch-request-id',
  'x-service-request-id',
]

/** The line of a header. */
export function headerLine(name: string, value: string): string {
  if (!isHeaderName(name) || !isHeaderValue(value))
    throw new Error(`The header ${JSON.stringify(name)} cannot be sent.`)
  return `${name}: ${value}\r\n`
}

/** The complete reply to bytes that are not a valid request. */
export function refusalReply({ status, error, message, headerLines: own }: Refusal, headerLines: string): string {
  const body = error === undefined ? '' : `${JSON.stringify({ error, reason: message })}\n`
  const type = body === '' ? '' : 'Cache-Control: must-revalidate\r\nContent-Type: text/plain;charset=utf-8\r\n'
  const head = `${statusLine(status)}${headerLines}${dateLine()}${own}${type}Connection: close\r\n`
  return `${head}Content-Length: ${body.length}\r\n\r\n${body}`
}

function statusLine(status: number): string {
  const known = statusLines.get(status)
  if (known !== undefined) return known
  const line = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? 'Unknown'}\r\n`
  statusLines.set(status, line)
  return line
}

/** At most one for each number of three digits. */
const statusLines = new Map<number, string>()

/** The line of this moment's date, made once a second. */
function dateLine(): string {
  const second = Math.floor(Date.now() / 1000)
  if (second !== lastDate.second) lastDate = { second, line: `Date: ${new Date(second * 1000).toUTCString()}\r\n` }
  return lastDate.line
}

let lastDate = { second: 0, line: '' }
