/**
 * The reply to one request. Its head goes out together with the first piece of its body: one write for a small reply.
 * Where the size is not known before, the body goes out in chunks, or ends with the connection for clients of old.
 */
import { dateLine, statusLine } from './reply-head.ts'

/** What a reply needs of the connection that it goes out on. */
export interface ReplySink {
  readonly isOpen: boolean
  /** Whether another request can follow. */
  readonly mayGoOn: boolean
  /** A text has a character for each byte. Tells whether the client takes more at once. */
  write(bytes: string | Buffer, written?: () => void): boolean
  /** What is written in between goes out together. */
  hold(): void
  letGo(): void
  /** Resolves when the client has taken what was written, or is gone. */
  taken(): Promise<void>
  /** The reply is written. */
  done(): void
  /** Ends the connection at once. */
  destroy(): void
}

export interface ReplyOptions {
  /** The request was one for the head alone. */
  readonly isHeadOnly: boolean
  readonly isOldVersion: boolean
  readonly keepsAlive: boolean
}

/** How the client knows where the body ends. */
type Framing = 'no body' | 'size' | 'chunks' | 'close'

/** So much goes out in one write together with the head. */
const ONE_WRITE_BYTES = 64 * 1024
const LAST_CHUNK = '0\r\n\r\n'

export class Reply {
  readonly #sink: ReplySink
  readonly #isHeadOnly: boolean
  readonly #isOldVersion: boolean
  /** Whether another request may follow on the connection. To be told with the head. */
  keepsAlive: boolean
  #framing: Framing = 'no body'
  /** While it is not sent. */
  #head = ''
  /** Of a body whose size was told: what is still to come. */
  #owedBytes = 0
  #state: 'new' | 'begun' | 'ended' | 'closed' = 'new'
  #isLeaving = false
  #closeListeners: Set<() => void> | undefined
  #leaveListeners: Set<() => void> | undefined

  constructor(sink: ReplySink, { isHeadOnly, isOldVersion, keepsAlive }: ReplyOptions) {
    this.#sink = sink
    this.#isHeadOnly = isHeadOnly
    this.#isOldVersion = isOldVersion
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

  /** All of a reply. The head is what `headerLine` made. One that is unsized goes out as it would were it longer. */
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
    this.#owedBytes = 0
    this.#end(this.#takeHead() + (this.isChunked ? onlyChunk(text, sizeBytes) : text))
  }

  /** Fixes the head of a reply that is made while it is sent. A size that is told must be kept to. */
  begin(status: number, head: string, sizeBytes?: number): void {
    if (this.#state === 'begun' || this.#state === 'ended') throw new Error('A reply was begun twice.')
    const isBare = status === 204 || status === 304
    this.#framing = isBare || this.#isHeadOnly ? 'no body' : this.#framingFor(sizeBytes)
    if (this.#framing === 'close' || !this.#sink.mayGoOn) this.keepsAlive = false
    if (this.#framing === 'size') this.#owedBytes = sizeBytes ?? 0
    const size = isBare || sizeBytes === undefined ? '' : `Content-Length: ${sizeBytes}\r\n`
    const chunks = this.isChunked ? 'Transfer-Encoding: chunked\r\n' : ''
    this.#head = `${statusLine(status)}${head}${dateLine()}${size}${chunks}${this.#connectionLine()}\r\n`
    if (this.#state === 'new') this.#state = 'begun'
  }

  /** Sends the head though there is nothing to follow yet. */
  flush(): void {
    if (this.#head !== '' && !this.isGone) this.#sink.write(this.#takeHead())
  }

  /** What is written until the microtasks of this turn are done goes out together: one system call, one packet. */
  joinWrites(): void {
    this.#sink.hold()
    process.nextTick(() => this.#sink.letGo())
  }

  /** A piece of the body. False when the client should have taken it (see `taken`) before there is more. */
  write(piece: string | Buffer): boolean {
    if (this.#state !== 'begun' || this.isGone) return true
    if (this.#framing === 'no body' || piece.length === 0) return true
    const bytes = typeof piece === 'string' ? Buffer.from(piece) : piece
    if (this.#framing === 'size') {
      this.#owedBytes -= bytes.length
      if (this.#owedBytes < 0) throw new Error('A reply is longer than it said.')
    }
    if (bytes.length <= ONE_WRITE_BYTES) return this.#writeSmall(bytes)
    this.#sink.hold()
    const before = this.#takeHead() + (this.isChunked ? chunkBegin(bytes.length) : '')
    if (before !== '') this.#sink.write(before)
    const isTaken = this.#sink.write(bytes)
    if (this.isChunked) this.#sink.write('\r\n')
    this.#sink.letGo()
    return isTaken
  }

  /** A piece that is framed as a chunk already, for replies that have chunks. */
  writeChunk(chunk: Buffer): boolean {
    this.flush()
    return this.isGone || this.#sink.write(chunk)
  }

  end(): void {
    if (this.#state !== 'begun') return
    this.#end(this.#takeHead() + (this.isChunked ? LAST_CHUNK : ''))
  }

  /** Resolves when the client has taken what was written, or is gone. */
  taken(): Promise<void> {
    return this.#sink.taken()
  }

  /** Cuts the connection: the only way to tell that the rest of a reply is missing. */
  destroy(): void {
    this.#sink.destroy()
  }

  /** Calls back when the reply is sent or can no longer be; at once if that is so. Returns how to stop that. */
  onClose(listener: () => void): () => void {
    if (this.isGone) {
      listener()
      return () => {}
    }
    this.#closeListeners ??= new Set()
    this.#closeListeners.add(listener)
    return () => this.#closeListeners?.delete(listener)
  }

  /** Calls back when whoever listens for requests goes away, at once if so. Returns how to stop that. */
  onLeaving(listener: () => void): () => void {
    if (this.#isLeaving) {
      listener()
      return () => {}
    }
    this.#leaveListeners ??= new Set()
    this.#leaveListeners.add(listener)
    return () => this.#leaveListeners?.delete(listener)
  }

  /** For the connection: this reply is the last one, and one that would go on for ever should end. */
  leave(): void {
    this.keepsAlive = false
    this.#isLeaving = true
    tell(this.#leaveListeners)
    this.#leaveListeners = undefined
  }

  /** For the connection: there will be no more of it. */
  close(): void {
    if (this.#state === 'closed') return
    this.#state = 'closed'
    tell(this.#closeListeners)
    this.#closeListeners = undefined
  }

  #framingFor(sizeBytes: number | undefined): Framing {
    if (sizeBytes !== undefined) return 'size'
    return this.#isOldVersion ? 'close' : 'chunks'
  }

  /** What is usual for a version is not said. */
  #connectionLine(): string {
    if (this.keepsAlive) return this.#isOldVersion ? 'Connection: Keep-Alive\r\n' : ''
    return 'Connection: close\r\n'
  }

  #takeHead(): string {
    const head = this.#head
    this.#head = ''
    return head
  }

  #writeSmall(bytes: Buffer): boolean {
    const head = this.#takeHead()
    if (head === '' && !this.isChunked) return this.#sink.write(bytes)
    const text = bytes.toString('latin1')
    return this.#sink.write(head + (this.isChunked ? `${chunkBegin(bytes.length)}${text}\r\n` : text))
  }

  #end(last: string): void {
    this.#state = 'ended'
    if (this.#owedBytes > 0) {
      this.#sink.destroy()
      return
    }
    // Who wants to know when it is sent pays for it.
    const hasListeners = this.#closeListeners !== undefined && this.#closeListeners.size > 0
    if (last === '' && hasListeners) this.#sink.write('', () => this.close())
    else if (last !== '') this.#sink.write(last, hasListeners ? () => this.close() : undefined)
    if (!hasListeners) this.#state = 'closed'
    this.#sink.done()
  }
}

function tell(listeners: ReadonlySet<() => void> | undefined): void {
  if (listeners) for (const listener of [...listeners]) listener()
}

function chunkBegin(sizeBytes: number): string {
  return `${sizeBytes.toString(16)}\r\n`
}

function onlyChunk(text: string, sizeBytes: number): string {
  return sizeBytes === 0 ? LAST_CHUNK : `${chunkBegin(sizeBytes)}${text}\r\n${LAST_CHUNK}`
}

/** A piece as one chunk, for replies that send the same to many. */
export function chunkOf(piece: Buffer): Buffer {
  return Buffer.concat([Buffer.from(chunkBegin(piece.length)), piece, LINE_END])
}

const LINE_END = Buffer.from('\r\n')
