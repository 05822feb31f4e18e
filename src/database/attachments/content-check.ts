/**
 * Checks on an attachment while it is uploaded: its size, of the bytes that are sent and of what they unpack to, and that
 * gzip content is whole.
 */
import { once } from 'node:events'
import { createGunzip } from 'node:zlib'
import { badRequest, RequestError } from '../../document/request-error.ts'

export class CheckedGzip implements AsyncIterable<Buffer> {
  readonly #source: AsyncIterable<Buffer>
  readonly #limit: ContentLimit | undefined
  readonly #unpacking = createGunzip()
  #failure: Error | undefined
  /** Called when the unpacking fails, for it calls back no more then. */
  #goOn = () => {}
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
        this.#goOn()
      })
  }

  /** Of all that passed. */
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

  /** Resolves when the piece is unpacked: what is unpacked is never more than one piece behind. */
  async #unpack(piece: Buffer): Promise<void> {
    this.#check()
    await new Promise<void>((resolve) => {
      this.#goOn = resolve
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

/** The limit on an attachment: of the bytes that are sent, and of what they unpack to. */
export interface ContentLimit {
  /** Of the attachment, for the refusal. */
  readonly name: string
  readonly bytes: number
}

export function checkContentSize(bytes: number, limit: ContentLimit): void {
  if (bytes > limit.bytes) throw new RequestError('too large', 'attachment_too_large', limit.name)
}

/** The same content, refused as soon as it is larger. */
export async function* limitedContent(source: AsyncIterable<Buffer>, limit: ContentLimit): AsyncGenerator<Buffer> {
  let bytes = 0
  for await (const piece of source) {
    bytes += piece.length
    checkContentSize(bytes, limit)
    yield piece
  }
}
