/** What another server answered. Its body is read once, or discarded. */
import type { Dispatcher } from 'undici'
import { gunzipped } from '../../database/reading/gzip.ts'
import { freeBytes } from '../../encoding/bytes/byte-sink.ts'
import { isObject } from '../../encoding/json/json-value.ts'
import { GrowingBuffer } from '../../runtime/growing-buffer.ts'
import { TransientError } from './retries.ts'

export class HttpReply {
  readonly status: number
  readonly #response: Dispatcher.ResponseData

  constructor(response: Dispatcher.ResponseData) {
    this.status = response.statusCode
    this.#response = response
  }

  get isSuccess(): boolean {
    return this.status >= 200 && this.status < 300
  }

  /** By its lower-case name; the first of several. */
  header(name: string): string | undefined {
    const value = this.#response.headers[name]
    return typeof value === 'string' ? value : value?.[0]
  }

  headers(name: string): readonly string[] {
    const value = this.#response.headers[name]
    return value === undefined ? [] : typeof value === 'string' ? [value] : value
  }

  get contentType(): string {
    return this.header('content-type') ?? ''
  }

  /** Decompressed, as it is received. A truncated body is a `TransientError`. */
  pieces(): AsyncGenerator<Buffer> {
    const received = receivedPieces(this.#response.body)
    return this.header('content-encoding')?.toLowerCase() === 'gzip' ? unpacked(received) : received
  }

  async bytes(limitBytes: number): Promise<Buffer> {
    const all = new GrowingBuffer()
    for await (const piece of this.pieces()) {
      if (all.length + piece.length > limitBytes) throw new ReplyTooLargeError(limitBytes)
      all.add(piece)
      // It is copied, and nobody else has it.
      freeBytes(piece)
    }
    return all.take()
  }

  /** A reply that is not JSON was truncated or damaged. Its values may take twenty times the memory of its text. */
  async json(limitBytes = LARGEST_JSON_BYTES): Promise<unknown> {
    const bytes = await this.bytes(limitBytes)
    const text = bytes.toString()
    freeBytes(bytes)
    try {
      return JSON.parse(text)
    } catch (cause) {
      throw new TransientError('A reply is not JSON.', { cause })
    }
  }

  /** Discards the body, so that the connection can be reused. */
  async discard(): Promise<void> {
    await this.#response.body.dump({ limit: DISCARDED_BYTES }).catch(() => {})
  }

  /** The error, as the server reports it. */
  async failure(): Promise<HttpStatusError> {
    const text = await this.bytes(LARGEST_ERROR_BYTES).catch(() => Buffer.alloc(0))
    let error = 'error'
    let reason = `status ${this.status}`
    try {
      const told: unknown = JSON.parse(text.toString())
      if (isObject(told)) {
        error = String(told.error ?? error)
        reason = typeof told.reason === 'string' ? told.reason : JSON.stringify(told.reason ?? reason)
      }
    } catch {
      // Some proxies answer with an HTML page.
    }
    return new HttpStatusError(this.status, error, reason)
  }
}

/** The server refuses a request. */
export class HttpStatusError extends Error {
  override readonly name = 'HttpStatusError'
  readonly status: number
  readonly error: string
  readonly reason: string

  constructor(status: number, error: string, reason: string) {
    super(`${status} ${error}: ${reason}`)
    this.status = status
    this.error = error
    this.reason = reason
  }
}

export class ReplyTooLargeError extends Error {
  override readonly name = 'ReplyTooLargeError'

  constructor(limitBytes: number) {
    super(`A reply is larger than ${limitBytes} bytes.`)
  }
}

const LARGEST_JSON_BYTES = 32 * 1024 * 1024
const LARGEST_ERROR_BYTES = 64 * 1024
const DISCARDED_BYTES = 128 * 1024

async function* receivedPieces(body: Dispatcher.ResponseData['body']): AsyncGenerator<Buffer> {
  try {
    for await (const piece of body) yield piece
  } catch (cause) {
    throw new TransientError(`A reply was truncated: ${messageOf(cause)}`, { cause })
  }
}

async function* unpacked(packed: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  try {
    yield* gunzipped(packed)
  } catch (cause) {
    if (cause instanceof TransientError) throw cause
    throw new TransientError('A reply cannot be decompressed.', { cause })
  }
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
