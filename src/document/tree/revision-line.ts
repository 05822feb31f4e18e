/**
 * The usual revision tree, a single branch whose hashes are all hexadecimal, in its stored form: it is read, extended and stored
 * again by copying a block, however long it is. Immutable.
 *
 *   format byte, start, count, hashes of 16 bytes and bodies, oldest first
 */
import { NUMBER_BYTES } from '../../encoding/bytes/short-bytes.ts'
import { formatRevision, generationOf, HASH_BYTES, hashOf, isHexadecimal, type RevisionId } from '../ids.ts'
import { HashList, type RevisionNode, type StoredBody } from './branch.ts'
import { DELETED, damagedTree, LIVE, MISSING, StoredTreeReader, StoredTreeWriter } from './stored-tree-bytes.ts'

/** What the stored form begins with. */
export const LINE_FORMAT = 2

export class RevisionLine {
  /** The newest revision. */
  readonly leaf: RevisionNode
  readonly count: number
  /** Whether any revision but the newest has a body. */
  readonly hasInnerBodies: boolean
  /** Made on demand where there is only one revision, as in most documents. */
  #stored: Buffer | undefined
  readonly #hashesAt: number

  private constructor(
    leaf: RevisionNode,
    count: number,
    hasInnerBodies: boolean,
    stored: Buffer | undefined,
    at: number,
  ) {
    this.leaf = leaf
    this.count = count
    this.hasInnerBodies = hasInnerBodies
    this.#stored = stored
    this.#hashesAt = at
  }

  /** A line of one revision; undefined where its hash is not hexadecimal. */
  static single(revision: RevisionId, body: StoredBody): RevisionLine | undefined {
    const hash = hashOf(revision)
    if (!isHexadecimal(hash)) return undefined
    const generation = generationOf(revision)
    return new RevisionLine(nodeOf(revision, generation, hash, body), 1, false, undefined, headerBytes(generation, 1))
  }

  /** Undefined where a hash is not hexadecimal. */
  static of(start: number, hashes: HashList, bodies: readonly StoredBody[]): RevisionLine | undefined {
    if (hashes.others.size > 0) return undefined
    const count = bodies.length
    const writer = new StoredTreeWriter(headerBytes(start, count) + count * (HASH_BYTES + NUMBER_BYTES))
    writeHeader(writer, start, count)
    writer.bytes(hashes.packed)
    writer.bodies(bodies)
    return RevisionLine.read(writer.written())
  }

  /** Throws when the bytes are not a line. */
  static read(stored: Buffer): RevisionLine {
    const reader = new StoredTreeReader(stored, 1)
    const start = reader.number()
    const count = reader.number()
    if (start === 0 || count === 0 || count * HASH_BYTES > reader.left()) throw damagedTree()
    const hashesAt = reader.at
    reader.skip(count * HASH_BYTES)
    let seen = 0
    let body = 0
    let hasInnerBodies = false
    while (seen < count) {
      const value = reader.tagged(count - seen)
      hasInnerBodies ||= body !== 0
      body = reader.tag === LIVE ? value : reader.tag === DELETED ? -value : 0
      seen += reader.tag === MISSING ? value : 1
    }
    reader.end()
    const generation = start + count - 1
    const hash = hashWithin(stored, hashesAt, count - 1)
    const leaf = nodeOf(formatRevision(generation, hash), generation, hash, body)
    return new RevisionLine(leaf, count, hasInnerBodies, stored, hashesAt)
  }

  /** The generation of the oldest revision. */
  get start(): number {
    return this.leaf.generation - this.count + 1
  }

  /** The stored form. */
  get stored(): Buffer {
    this.#stored ??= this.#storedSingle()
    return this.#stored
  }

  hashAt(index: number): string {
    return index === this.count - 1 ? this.leaf.hash : hashWithin(this.stored, this.#hashesAt, index)
  }

  hashes(): HashList {
    const end = this.#hashesAt + this.count * HASH_BYTES
    return new HashList(this.stored.subarray(this.#hashesAt, end), undefined, this.leaf.hash)
  }

  bodies(): StoredBody[] {
    return new StoredTreeReader(this.stored, this.#bodiesAt).bodies(this.count)
  }

  /** The line with one newer revision, whose hash is hexadecimal. */
  extended(hash: string, body: StoredBody): RevisionLine {
    const { stored, start } = this
    const count = this.count + 1
    const hashesAt = headerBytes(start, count)
    const bodiesAt = this.#bodiesAt
    const writer = new StoredTreeWriter(hashesAt + count * HASH_BYTES + stored.length - bodiesAt + NUMBER_BYTES)
    writeHeader(writer, start, count)
    writer.bytes(stored, this.#hashesAt, bodiesAt)
    writer.hash(hash)
    writer.bytes(stored, bodiesAt)
    writer.body(body)
    const generation = this.leaf.generation + 1
    const leaf = nodeOf(formatRevision(generation, hash), generation, hash, body)
    return new RevisionLine(leaf, count, this.hasInnerBodies || this.leaf.body !== 0, writer.written(), hashesAt)
  }

  /** The newest revisions up to a limit, and the bodies of those that were cut off. */
  cutTo(limit: number): { readonly line: RevisionLine; readonly dropped: readonly number[] } {
    if (this.count <= limit) return { line: this, dropped: NONE }
    const { stored } = this
    const cut = this.count - limit
    const dropped: number[] = []
    const reader = new StoredTreeReader(stored, this.#bodiesAt)
    let seen = 0
    while (seen < cut) {
      const value = reader.tagged(this.count - seen)
      seen += reader.tag === MISSING ? value : 1
      if (reader.tag !== MISSING) dropped.push(value)
    }
    const start = this.start + cut
    const writer = new StoredTreeWriter(headerBytes(start, limit) + NUMBER_BYTES + stored.length - cut * HASH_BYTES)
    writeHeader(writer, start, limit)
    writer.bytes(stored, this.#hashesAt + cut * HASH_BYTES, this.#bodiesAt)
    // What is left of a run without bodies that begins before the cut.
    if (seen > cut) writer.tagged(MISSING, seen - cut)
    writer.bytes(stored, reader.at)
    return { line: RevisionLine.read(writer.written()), dropped }
  }

  get #bodiesAt(): number {
    return this.#hashesAt + this.count * HASH_BYTES
  }

  #storedSingle(): Buffer {
    const { generation, hash, body, status } = this.leaf
    const writer = new StoredTreeWriter(this.#hashesAt + HASH_BYTES + NUMBER_BYTES)
    writeHeader(writer, generation, 1)
    writer.hash(hash)
    writer.bodies([status === 'deleted' ? -body : body])
    return writer.written()
  }
}

const NONE: readonly number[] = []

function nodeOf(revision: RevisionId, generation: number, hash: string, body: StoredBody): RevisionNode {
  const status = body === 0 ? 'missing' : body > 0 ? 'live' : 'deleted'
  return { revision, generation, hash, status, body: Math.abs(body) }
}

function writeHeader(writer: StoredTreeWriter, start: number, count: number): void {
  writer.byte(LINE_FORMAT)
  writer.number(start)
  writer.number(count)
}

function headerBytes(start: number, count: number): number {
  return 1 + numberBytes(start) + numberBytes(count)
}

function numberBytes(value: number): number {
  let bytes = 1
  for (let rest = value; rest >= 0x80; rest = Math.floor(rest / 0x80)) bytes++
  return bytes
}

function hashWithin(stored: Buffer, hashesAt: number, index: number): string {
  const at = hashesAt + index * HASH_BYTES
  return stored.toString('hex', at, at + HASH_BYTES)
}
