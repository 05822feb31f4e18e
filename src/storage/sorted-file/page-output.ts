/** Writes the pages of a file in the order of their numbers, many in one write, while the next ones are made. */
import type { FileHandle } from 'node:fs/promises'
import { LMDB_PAGE_BYTES } from '../file-check/page-layout.ts'

const CHUNK_BYTES = 64 * LMDB_PAGE_BYTES
/** Concurrent writes before the producer of pages has to wait. */
const MOST_WRITES = 4

export class PageOutput {
  readonly #file: FileHandle
  readonly #writes: Promise<unknown>[] = []
  /** Chunks that are written and can be filled again. */
  readonly #free: Buffer<ArrayBuffer>[] = []
  #chunk = Buffer.allocUnsafeSlow(CHUNK_BYTES)
  #chunkEnd = 0
  /** Where the chunk goes. */
  #position: number

  /** The pages before the first one are written elsewhere. */
  constructor(file: FileHandle, firstPage: number) {
    this.#file = file
    this.#position = firstPage * LMDB_PAGE_BYTES
  }

  /** The number of the page that is added next. */
  get nextPage(): number {
    return (this.#position + this.#chunkEnd) / LMDB_PAGE_BYTES
  }

  /** Whether so much waits for the disk that no more should be added. */
  get isFull(): boolean {
    return this.#writes.length > MOST_WRITES
  }

  /** The bytes that this holds: on their way, being filled, or free to be filled again. */
  get heldBytes(): number {
    return (this.#writes.length + this.#free.length + 1) * CHUNK_BYTES
  }

  /** Adds a copy of one page or of several. */
  add(pages: Buffer): void {
    for (let at = 0; at < pages.length; ) {
      const size = Math.min(pages.length - at, CHUNK_BYTES - this.#chunkEnd)
      pages.copy(this.#chunk, this.#chunkEnd, at, at + size)
      at += size
      this.#chunkEnd += size
      if (this.#chunkEnd === CHUNK_BYTES) this.#write()
    }
  }

  /** Resolves when there is room for more. Rejects when the disk did not take something. */
  async room(): Promise<void> {
    while (this.isFull) await this.#writes.shift()
  }

  /** Resolves when everything is written; it need not be on disk. */
  async end(): Promise<void> {
    if (this.#chunkEnd > 0) this.#write()
    while (this.#writes.length > 0) await this.#writes.shift()
  }

  #write(): void {
    const chunk = this.#chunk
    const writing = writeWhole(this.#file, chunk.subarray(0, this.#chunkEnd), this.#position).then(() => {
      if (this.#free.length <= MOST_WRITES) this.#free.push(chunk)
    })
    // Heard of when its turn comes.
    writing.catch(() => {})
    this.#writes.push(writing)
    this.#position += this.#chunkEnd
    this.#chunk = this.#free.pop() ?? Buffer.allocUnsafeSlow(CHUNK_BYTES)
    this.#chunkEnd = 0
  }
}

/** The system may take less than it is given. */
export async function writeWhole(file: FileHandle, bytes: Buffer, position: number): Promise<void> {
  for (let at = 0; at < bytes.length; ) {
    const { bytesWritten } = await file.write(bytes, at, bytes.length - at, position + at)
    at += bytesWritten
  }
}
