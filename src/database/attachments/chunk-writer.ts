/**
 * Cuts a stream of bytes into the chunks of an attachment. Full chunks are committed some megabytes at a time; one commit is
 * under way while the next chunks fill. No revision refers to them yet. The last megabytes are left to the commit of the
 * document: each commit is two flushes.
 */
import type { Put, Store } from '../../storage/store.ts'
import { attachmentKey } from '../layout/keys.ts'

/** Chunks of one commit. Each commit is two flushes; each chunk takes memory. */
const COMMIT_CHUNKS = 16
/** Chunks that wait for the commit under way, or for that of the document. Beyond it the stream waits. */
const WAITING_CHUNKS = 24
const SMALLEST_BUFFER_BYTES = 16 * 1024

/** Buffers of chunks that are on disk, to be used again: new memory costs more than the copy. */
const freeBuffers: Buffer[] = []
const FREE_BUFFERS_LIMIT = 2 * COMMIT_CHUNKS

export class ChunkWriter {
  readonly #store: Store
  readonly #number: number
  /** How many bytes come; undefined where that is not known. */
  readonly #expectedBytes: number | undefined
  /** The chunk that is being filled. */
  #chunk: Buffer | undefined
  #filledBytes = 0
  #chunks = 0
  #puts: Put[] = []
  /** The commit under way. */
  #committing: Promise<void> | undefined
  #failure: { readonly error: unknown } | undefined
  #hasCommitted = false

  constructor(store: Store, number: number, expectedBytes?: number) {
    this.#store = store
    this.#number = number
    this.#expectedBytes = expectedBytes
  }

  /** Whether chunks were committed, or may have been. */
  get hasCommitted(): boolean {
    return this.#hasCommitted
  }

  /** Returns a promise where the caller should wait: backpressure. */
  add(piece: Buffer): Promise<void> | undefined {
    for (let at = 0; at < piece.length; ) {
      const chunk = this.#chunkFor(piece.length - at)
      const copied = piece.copy(chunk, this.#filledBytes, at)
      this.#filledBytes += copied
      at += copied
      if (this.#filledBytes < CHUNK_BYTES) continue
      this.#put(chunk)
      this.#commitSome()
      if (this.#puts.length >= WAITING_CHUNKS) return this.#waitAndAdd(piece.subarray(at))
    }
    return undefined
  }

  /** The chunks that are not on disk. */
  async finish(): Promise<readonly Put[]> {
    await this.#committed()
    const last = this.#chunk?.subarray(0, this.#filledBytes)
    if (last !== undefined) this.#put(last)
    else if (this.#chunks === 0) this.#put(Buffer.alloc(0))
    return this.#puts
  }

  /** Resolves when nothing is being committed any more. */
  async stop(): Promise<void> {
    await this.#committing
  }

  async #waitAndAdd(rest: Buffer): Promise<void> {
    await this.#committed()
    this.#commitSome()
    await this.add(rest)
  }

  async #committed(): Promise<void> {
    await this.#committing
    if (this.#failure) throw this.#failure.error
  }

  /** Begins a commit of what waits, if that is enough for one and none is under way. */
  #commitSome(): void {
    if (this.#committing || this.#failure || this.#puts.length < COMMIT_CHUNKS || this.#isNearlyDone()) return
    const puts = this.#puts
    this.#puts = []
    this.#hasCommitted = true
    this.#committing = this.#commit(puts)
  }

  /** Whether all that is left fits into the commit of the document. */
  #isNearlyDone(): boolean {
    if (this.#expectedBytes === undefined || this.#puts.length > WAITING_CHUNKS) return false
    const committedChunks = this.#chunks - this.#puts.length
    const leftBytes = this.#expectedBytes - committedChunks * CHUNK_BYTES
    return leftBytes <= WAITING_CHUNKS * CHUNK_BYTES
  }

  /** Never rejects: its failure is passed to the callers that wait for it. */
  async #commit(puts: readonly Put[]): Promise<void> {
    try {
      await this.#store.commit({ puts, unreferenced: true })
      if (!this.#store.keepsValues) keepBuffers(puts)
    } catch (error) {
      this.#failure = { error }
    } finally {
      this.#committing = undefined
    }
  }

  #put(chunk: Buffer): void {
    this.#puts.push([attachmentKey(this.#number, this.#chunks++), chunk])
    this.#chunk = undefined
    this.#filledBytes = 0
  }

  /** The buffer for the next bytes. Only the first one grows: most attachments are smaller than a chunk. */
  #chunkFor(bytes: number): Buffer {
    if (this.#chunk !== undefined && this.#filledBytes < this.#chunk.length) return this.#chunk
    const before = this.#chunk
    if (this.#chunks > 0) this.#chunk = freeBuffers.pop() ?? Buffer.allocUnsafeSlow(CHUNK_BYTES)
    else {
      const size = Math.max(this.#filledBytes * 2, this.#filledBytes + bytes, SMALLEST_BUFFER_BYTES)
      this.#chunk = Buffer.allocUnsafeSlow(Math.min(size, CHUNK_BYTES))
      before?.copy(this.#chunk)
    }
    return this.#chunk
  }
}

function keepBuffers(puts: readonly Put[]): void {
  for (const [, value] of puts) {
    if (freeBuffers.length >= FREE_BUFFERS_LIMIT) return
    freeBuffers.push(Buffer.from(value.buffer, value.byteOffset, value.byteLength))
  }
}

/**
 * Attachments are stored in chunks of this size, numbered from 0; only the last one is shorter. An empty attachment has
 * one empty chunk, which distinguishes it from a missing one. A chunk fits into 32 pages of the file with their header. Part of
 * the format: never change it.
 */
export const CHUNK_BYTES = 32 * 8192 - 64

export interface ChunkSlice {
  readonly chunk: number
  readonly start: number
  readonly end: number
}

/** The chunks that hold the bytes from `start` to `end` (exclusive), and which part of each. */
export function* slicesOf(start: number, end: number): Generator<ChunkSlice> {
  for (let at = start; at < end; ) {
    const chunk = Math.floor(at / CHUNK_BYTES)
    const base = chunk * CHUNK_BYTES
    const sliceEnd = Math.min(end, base + CHUNK_BYTES)
    yield { chunk, start: at - base, end: sliceEnd - base }
    at = sliceEnd
  }
}
