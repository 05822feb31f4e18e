/**
 * The bytes of a database's attachments. An upload goes to the store in small commits as it arrives and is never whole in
 * memory. No revision refers to it before its document is committed. A small attachment stays in memory and is part of that
 * commit. What a failed upload leaves is removed when its last user releases it. Compaction removes attachments that no
 * revision refers to any more.
 */
import { createHash, hash } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { missingStub } from '../../document/request-error.ts'
import { freeBytes } from '../../encoding/bytes/byte-sink.ts'
import type { LeaseProof } from '../../storage/leases/work-leases.ts'
import type { KeyRange, Put, Snapshot, Store } from '../../storage/store.ts'
import { ATTACHMENT_PREFIX, attachmentKey, numberOfAttachmentKey } from '../layout/keys.ts'
import type { AttachmentContent } from '../layout/stored-body.ts'
import { gzipped } from '../reading/gzip.ts'
import { AttachmentNumbers } from './attachment-numbers.ts'
import { CHUNK_BYTES, ChunkWriter, slicesOf } from './chunk-writer.ts'
import { CheckedGzip, type ContentLimit, checkContentSize, limitedContent } from './content-check.ts'

export interface StagingOptions {
  /** The compression level; undefined stores the bytes as they are. */
  readonly packLevel?: number | undefined
  /** Set when the uploaded bytes are compressed. */
  readonly encoding?: 'gzip' | undefined
  /** The size after decompression, where the sender says it. */
  readonly length?: number | undefined
  /** How many bytes come, where that is known. */
  readonly sentBytes?: number | undefined
  /** How large it may be; undefined where it may have any size. */
  readonly limit?: ContentLimit | undefined
  /** Whether the pieces belong to the store: their memory is freed as soon as they are stored. */
  readonly freesPieces?: boolean
}

/** An attachment whose bytes are here and that no document has yet. */
export interface StagedAttachment {
  readonly content: AttachmentContent
  /** Chunks to be committed with the document. */
  readonly puts: readonly Put[]
  /** To be called when the document was written, or will not be. */
  release(): void
}

/** Where readers get the contents of attachments from. */
export interface AttachmentContents {
  /** Stored bytes from `start` to `end` (exclusive). */
  read(content: AttachmentContent, start?: number, end?: number): AsyncGenerator<Buffer>
  /** Keeps the bytes of all of them until the returned function is called; 'gone' if any are missing. */
  keepAll(contents: readonly AttachmentContent[]): Promise<(() => void) | 'gone'>
}

/** Read from the store at once. */
const READ_CHUNKS = 4
/** Limit on the bytes of contents that are read together. */
const READ_BYTES = 512 * 1024

export class AttachmentStore implements AttachmentContents {
  readonly #store: Store
  /** Numbers that are being written or read, with the count of users. */
  readonly #inUse = new Map<number, number>()
  /** Numbers that are being removed and cannot be used any more. */
  readonly #condemned = new Set<number>()
  /** While unreferenced bytes are being removed: the numbers used since that began. */
  #spared: Set<number> | undefined
  /** Numbers with chunks in the store that no revision refers to yet. */
  readonly #unreferenced = new Set<number>()
  readonly #numbers: AttachmentNumbers
  /** Where another node compacts, which does not know what is used here: snapshots that still have the bytes of a number. */
  readonly #heldStates: Map<number, Snapshot> | undefined

  constructor(store: Store, { isFollower = false }: { readonly isFollower?: boolean } = {}) {
    this.#store = store
    this.#numbers = new AttachmentNumbers(store)
    this.#heldStates = isFollower ? new Map() : undefined
  }

  /** Whether the bytes that are read have memory of their own, which whoever read them may free. */
  get givesCopies(): boolean {
    return this.#store.givesCopies
  }

  /** Stages a copy of another database's attachment from its stored bytes. Its digests and sizes are kept. */
  async stageCopy(source: AsyncIterable<Buffer>, original: AttachmentContent): Promise<StagedAttachment> {
    const staged = await this.stage(source)
    const { number, md5, storedLength } = staged.content
    if (md5 === original.storedMd5 && storedLength === original.storedLength) {
      return { ...staged, content: { ...original, number } }
    }
    staged.release()
    throw new Error('The copy of an attachment differs from the original.')
  }

  /** Stages an upload. If it breaks off, what was stored of it is removed. */
  async stage(source: AsyncIterable<Buffer>, options: StagingOptions = {}): Promise<StagedAttachment> {
    const { freesPieces = false } = options
    const number = await this.#numbers.next()
    const release = this.use(number)
    const isPacked = options.packLevel !== undefined
    const chunks = new ChunkWriter(this.#store, number, isPacked ? undefined : options.sentBytes)
    try {
      const limited = options.limit ? limitedContent(source, options.limit) : source
      const checked = options.encoding ? new CheckedGzip(limited, options.limit) : undefined
      const sent = new MeasuredSource(checked ?? limited)
      const stored = isPacked ? new MeasuredSource(gzipped(sent, options.packLevel)) : sent
      for await (const piece of stored) {
        const committing = chunks.add(piece)
        if (committing) await committing
        if (freesPieces && !isPacked) freeBytes(piece)
      }
      const puts = await chunks.finish()
      const md5 = sent.md5()
      const content: AttachmentContent = {
        number,
        md5,
        length: (options.encoding && options.length) ?? sent.length,
        encoding: isPacked ? 'gzip' : options.encoding,
        storedLength: stored.length,
        storedMd5: isPacked ? stored.md5() : md5,
        unpackedLength: checked?.unpackedLength,
      }
      if (chunks.hasCommitted) this.#unreferenced.add(number)
      return { content, puts, release }
    } catch (error) {
      await chunks.stop()
      if (chunks.hasCommitted) this.#unreferenced.add(number)
      release()
      throw error
    }
  }

  /** Stages content that is whole in memory. Its bytes must not change before they are committed. */
  async stageWhole(
    bytes: Buffer,
    options: Pick<StagingOptions, 'packLevel' | 'limit'> = {},
  ): Promise<StagedAttachment> {
    const { packLevel, limit } = options
    if (packLevel !== undefined || bytes.length > CHUNK_BYTES) return this.stage(piecesOf(bytes), options)
    if (limit) checkContentSize(bytes.length, limit)
    const number = await this.#numbers.next()
    const md5 = hash('md5', bytes, 'base64')
    const { length } = bytes
    const content = { number, md5, length, encoding: undefined, storedLength: length, storedMd5: md5 }
    const value = this.#store.keepsValues ? Buffer.from(bytes) : bytes
    return { content, puts: [[attachmentKey(number, 0), value]], release: this.use(number) }
  }

  /** For the writer: revisions that refer to these numbers are about to be committed. They are not removed from now on. */
  refer(numbers: readonly number[]): void {
    for (const number of numbers) this.#unreferenced.delete(number)
  }

  /**
   * The same for who reads a snapshot of the database at the same time: while that has a moment contents are read in it. Where a
   * state takes a connection, a second one would be waited for otherwise.
   */
  beside(snapshot: Snapshot): AttachmentContents {
    return {
      read: (content, start, end) => this.read(content, start, end, snapshot),
      // In that state they may be stored, and not any more when it is released.
      keepAll: (contents) => this.keepAll(contents),
    }
  }

  /**
   * Stored bytes from `start` to `end` (exclusive). Each piece is read from the newest state, or beside another snapshot: chunks
   * never change.
   */
  async *read(
    { number, storedLength }: AttachmentContent,
    start = 0,
    end = storedLength,
    beside?: Snapshot,
  ): AsyncGenerator<Buffer> {
    const release = this.use(number)
    try {
      const slices = [...slicesOf(start, end)]
      for (let first = 0; first < slices.length; first += READ_CHUNKS) {
        const some = slices.slice(first, first + READ_CHUNKS)
        const chunks = await this.#chunks(
          number,
          some.map(({ chunk }) => chunk),
          beside,
        )
        for (const [i, slice] of some.entries()) {
          const chunk = chunks[i]
          if (!chunk) throw new Error(`Chunk ${slice.chunk} of attachment ${number} is missing.`)
          yield chunk.subarray(slice.start, slice.end)
        }
      }
    } finally {
      release()
    }
  }

  async #chunks(number: number, chunks: readonly number[], beside?: Snapshot): Promise<(Buffer | undefined)[]> {
    const keys = chunks.map((chunk) => attachmentKey(number, chunk))
    const held = this.#heldStates?.get(number)
    if (held) return held.getMany(keys)
    using snapshot = this.#store.snapshot(beside?.moment)
    return await snapshot.getMany(keys)
  }

  /**
   * The stored bytes of several contents of one chunk each, in order, several with one read. The caller keeps them from being
   * removed.
   */
  async *readWhole(contents: readonly AttachmentContent[]): AsyncGenerator<Buffer> {
    for (let first = 0; first < contents.length; ) {
      const some: AttachmentContent[] = []
      for (let bytes = 0; first < contents.length && bytes < READ_BYTES; first++) {
        some.push(contents[first]!)
        bytes += contents[first]!.storedLength
      }
      for (const [i, chunk] of (await this.#firstChunks(some)).entries()) {
        if (!chunk) throw new Error(`Chunk 0 of attachment ${some[i]!.number} is missing.`)
        yield chunk
      }
    }
  }

  async #firstChunks(contents: readonly AttachmentContent[]): Promise<(Buffer | undefined)[]> {
    if (this.#heldStates) {
      const each = await Promise.all(contents.map(({ number }) => this.#chunks(number, [0])))
      return each.flat()
    }
    using snapshot = this.#store.snapshot()
    return await snapshot.getMany(contents.map(({ number }) => attachmentKey(number, 0)))
  }

  /** Keeps bytes from being removed until the returned function is called; undefined if they are gone already. */
  async keep(content: AttachmentContent): Promise<(() => void) | undefined> {
    const release = await this.keepAll([content])
    return release === 'gone' ? undefined : release
  }

  /** Keeps the bytes of all of them until the returned function is called; 'gone' if any are missing. */
  async keepAll(contents: readonly AttachmentContent[]): Promise<(() => void) | 'gone'> {
    if (contents.length === 0) return NOTHING_KEPT
    if (contents.some(({ number }) => this.#condemned.has(number))) return 'gone'
    // Before it is looked for: what is in use by then is not removed later.
    const kept = contents.map(({ number }) => this.use(number))
    const release = () => {
      for (const each of kept) each()
    }
    try {
      if (await this.#findAll(contents.map(({ number }) => number))) return release
      release()
      return 'gone'
    } catch (error) {
      release()
      throw error
    }
  }

  /** Whether all are in the newest state. Where another node compacts, that is held. */
  async #findAll(numbers: readonly number[]): Promise<boolean> {
    const { sharing } = this.#store
    if (sharing?.areStored) return sharing.areStored(numbers.map((number) => attachmentKey(number, 0)))
    using snapshot = this.#store.snapshot()
    if (!(await areStored(snapshot, numbers))) return false
    for (const number of this.#heldStates ? numbers : []) {
      if (!this.#heldStates?.has(number)) this.#heldStates?.set(number, snapshot.share())
    }
    return true
  }

  /** Keeps the bytes from being removed until the returned function is called. */
  use(number: number): () => void {
    this.#inUse.set(number, (this.#inUse.get(number) ?? 0) + 1)
    this.#spared?.add(number)
    let isUsed = true
    return () => {
      if (!isUsed) return
      isUsed = false
      const users = (this.#inUse.get(number) ?? 1) - 1
      if (users > 0) this.#inUse.set(number, users)
      else this.#released(number)
    }
  }

  #released(number: number): void {
    this.#inUse.delete(number)
    this.#heldStates?.get(number)?.release()
    this.#heldStates?.delete(number)
    if (!this.#unreferenced.delete(number)) return
    // If that fails, compaction removes them.
    this.#remove(number).catch(() => {})
  }

  /**
   * Removes all bytes that no revision refers to. `findReferenced` reads one snapshot of the database. What was used since
   * it began is kept, since a revision may refer to it by now.
   */
  async removeUnreferenced(
    findReferenced: () => Promise<{ has(number: number): boolean }>,
    lease?: LeaseProof,
  ): Promise<void> {
    const last = await this.#numbers.last()
    const spared = new Set(this.#inUse.keys())
    this.#spared = spared
    try {
      const referenced = await findReferenced()
      for await (const number of this.#numbers.stored(last)) {
        if (!referenced.has(number) && !spared.has(number)) await this.#remove(number, lease)
      }
    } finally {
      this.#spared = undefined
    }
  }

  async #remove(number: number, lease?: LeaseProof): Promise<void> {
    this.#condemned.add(number)
    try {
      await this.#store.commit({ clears: [attachmentRange(number)], unreferenced: true, lease })
    } finally {
      this.#condemned.delete(number)
    }
  }

  /** Where other servers write too: the stored numbers, some at a time, without those that uploads may still be using. */
  async *removableNumbers(): AsyncGenerator<number[]> {
    const settled = (await this.#store.sharing?.settledBelow()) ?? 0
    let numbers: number[] = []
    for await (const number of this.#numbers.stored(Math.min(await this.#numbers.last(), settled - 1))) {
      numbers.push(number)
      if (numbers.length < REMOVED_TOGETHER) continue
      yield numbers
      numbers = []
    }
    if (numbers.length > 0) yield numbers
  }

  /** Whether this server is reading or writing the bytes. */
  isUsed(number: number): boolean {
    return this.#inUse.has(number)
  }

  /**
   * For the writer, where other servers compact: throws where the bytes of one of the numbers are neither in the store nor
   * among the rows to be committed.
   */
  async assertStored(snapshot: Snapshot, numbers: readonly number[], puts: readonly Put[]): Promise<void> {
    const missing = new Set(numbers)
    for (const [key] of puts) {
      if (key[0] === ATTACHMENT_PREFIX[0]) missing.delete(numberOfAttachmentKey(Buffer.from(key)))
    }
    if (await areStored(snapshot, [...missing])) return
    throw missingStub('An attachment was removed while the document was being written.')
  }
}

/** All at once: where each read is a round trip, many take one. */
async function areStored(snapshot: Snapshot, numbers: readonly number[]): Promise<boolean> {
  for (let first = 0; first < numbers.length; first += ASKED_TOGETHER) {
    const some = numbers.slice(first, first + ASKED_TOGETHER)
    const pages = await Promise.all(
      some.map((number) => snapshot.page(firstChunkRange(number), { rows: 1, keysOnly: true })),
    )
    if (pages.some((page) => page.length === 0)) return false
  }
  return true
}

const ASKED_TOGETHER = 500

function firstChunkRange(number: number): KeyRange {
  return { from: attachmentKey(number, 0), to: attachmentKey(number, 1) }
}

const NOTHING_KEPT = () => {}

/** Attachments that one commit removes where other servers write too. */
const REMOVED_TOGETHER = 200

/** All chunks of an attachment. */
export function attachmentRange(number: number): KeyRange {
  return { from: attachmentKey(number, 0), to: attachmentKey(number + 1, 0) }
}

/** In pieces, each of which is hashed and compressed, so that the event loop is not blocked for long. */
async function* piecesOf(bytes: Buffer): AsyncGenerator<Buffer> {
  for (let at = 0; at < bytes.length; at += PIECE_BYTES) {
    if (at > 0) await nextTurn()
    yield bytes.subarray(at, at + PIECE_BYTES)
  }
}

const PIECE_BYTES = 1024 * 1024

/** Counts and hashes the bytes of a stream. */
class MeasuredSource implements AsyncIterable<Buffer> {
  readonly #source: AsyncIterable<Buffer>
  readonly #hash = createHash('md5')
  length = 0

  constructor(source: AsyncIterable<Buffer>) {
    this.#source = source
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Buffer> {
    for await (const piece of this.#source) {
      this.length += piece.length
      this.#hash.update(piece)
      yield piece
    }
  }

  /** Of all bytes, in Base64. To be called once. */
  md5(): string {
    return this.#hash.digest('base64')
  }
}
