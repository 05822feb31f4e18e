/**
 * Content that comes packed, checked while it passes: what cannot be unpacked again is refused before anything refers to
 * it, since every reader would fail at it. Also tells how large it is unpacked, which the sender need not know.
 */
import { once } from 'node:events'
import { createGunzip } from 'node:zlib'
import { badRequest, type RequestError } from '../../document/request-error.ts'
import { type ContentLimit, checkContentSize } from './content-limit.ts'

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
