/**
 * Checks on an attachment while it is uploaded: its size before and after decompression, and that gzip content is complete.
 */
import { once } from 'node:events'
import { createGunzip } from 'node:zlib'
import { badRequest, RequestError } from '../../document/request-error.ts'

export class CheckedGzip implements AsyncIterable<Buffer> {
  readonly #source: AsyncIterable<Buffer>
  readonly #limit: ContentLimit | undefined
  readonly #unpacking = createGunzip()
  #failure: Error | undefined
  /** Called when the decompression fails, since it calls back no more then. */
  #resume = () => {}
  #unpackedLength = 0

  constructor(source: AsyncIterable<Buffer>, limit?: ContentLimit) {
    this.#source = source
    this.#limit = limit
    this.#unpacking
      .on('data', (piece: Buffer) => {
        this.#unpackedLength += piece.length
      })
      .on('error', (error) => {
        this.#failure = error
        this.#resume()
      })
  }

  /** Of all bytes so far. */
  get unpackedLength(): number {
    return this.#unpackedLength
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Buffer> {
    let isEmpty = true
    try {
      for await (const piece of this.#source) {
        await this.#unpack(piece)
        isEmpty = false
        yield piece
      }
      if (isEmpty) throw notGzip()
      await this.#end()
    } finally {
      this.#unpacking.destroy()
    }
  }

  /** Resolves when the piece is decompressed: at most one piece is pending. */
  async #unpack(piece: Buffer): Promise<void> {
    this.#check()
    await new Promise<void>((resolve) => {
      this.#resume = resolve
      this.#unpacking.write(piece, () => resolve())
    })
    this.#check()
  }

  #check(): void {
    if (this.#failure) throw notGzip()
    if (this.#limit) checkContentSize(this.#unpackedLength, this.#limit)
  }

  async #end(): Promise<void> {
    const ended = once(this.#unpacking, 'end')
    this.#unpacking.end()
    await ended.catch(() => {
      throw notGzip()
    })
    this.#check()
  }
}

function notGzip(): RequestError {
  return badRequest('The content is not valid gzip.')
}

/** The limit on an attachment, before and after decompression. */
export interface ContentLimit {
  /** Of the attachment, for the error. */
  readonly name: string
  readonly bytes: number
}

export function checkContentSize(bytes: number, limit: ContentLimit): void {
  if (bytes > limit.bytes) throw new RequestError('too large', 'attachment_too_large', limit.name)
}

/** The same content, refused as soon as it exceeds the limit. */
export async function* limitedContent(source: AsyncIterable<Buffer>, limit: ContentLimit): AsyncGenerator<Buffer> {
  let bytes = 0
  for await (const piece of source) {
    bytes += piece.length
    checkContentSize(bytes, limit)
    yield piece
  }
}
