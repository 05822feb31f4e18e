/**
 * The stored form of a revision tree. A revision takes its 16 bytes and the number of its body; a run of revisions without
 * bodies takes one number. Reading it copies no hash.
 *
 *   tree    format byte, number of branches, branches
 *   branch  parent + 1, start, count, bodies, hashes of 16 bytes, number of other hashes, those: index, size, text
 *   body    the status in the two low bits of its first byte, the body number above them; without body: length of the run
 */
import { writeVarint } from '../encoding/varint.ts'
import { HASH_BYTES, HashList } from './hash-list.ts'
import { type Branch, leafGeneration, NO_PARENT, RevisionTree, type StoredBody } from './revision-tree.ts'

export function encodeTree(tree: RevisionTree): Buffer {
  const writer = new Writer(tree.branches.reduce((size, branch) => size + maximalSize(branch), 1 + NUMBER_BYTES))
  writer.byte(FORMAT)
  writer.number(tree.branches.length)
  for (const branch of tree.branches) writeBranch(writer, branch)
  return writer.written()
}

/** Throws when the bytes are no tree: they were damaged, or written by a later version. */
export function decodeTree(bytes: Buffer): RevisionTree {
  const reader = new Reader(bytes)
  if (reader.byte() !== FORMAT) throw new Error('The revision tree has an unknown format.')
  const count = reader.number()
  const branches: Branch[] = []
  for (let index = 0; index < count; index++) branches.push(readBranch(reader))
  reader.end()
  if (branches.length === 0 || !branches.every((branch) => isRooted(branch, branches))) throw damaged()
  return new RevisionTree(branches)
}

const FORMAT = 1
/** Of a number up to 2^53, status included. */
const NUMBER_BYTES = 8

const MISSING = 0
const LIVE = 1
const DELETED = 2

function maximalSize(branch: Branch): number {
  let others = 0
  for (const hash of branch.hashes.others.values()) others += 2 * NUMBER_BYTES + 3 * hash.length
  return 4 * NUMBER_BYTES + branch.bodies.length * (HASH_BYTES + NUMBER_BYTES) + others
}

function writeBranch(writer: Writer, branch: Branch): void {
  writer.number(branch.parent + 1)
  writer.number(branch.start)
  writer.number(branch.bodies.length)
  writeBodies(writer, branch.bodies)
  writer.bytes(branch.hashes.packed)
  writer.number(branch.hashes.others.size)
  for (const [index, hash] of branch.hashes.others) {
    const text = Buffer.from(hash, 'utf8')
    writer.number(index)
    writer.number(text.length)
    writer.bytes(text)
  }
}

function writeBodies(writer: Writer, bodies: readonly StoredBody[]): void {
  let index = 0
  while (index < bodies.length) {
    const body = bodies[index]!
    if (body !== 0) {
      writer.tagged(body > 0 ? LIVE : DELETED, Math.abs(body))
      index++
    } else {
      const start = index
      while (index < bodies.length && bodies[index] === 0) index++
      writer.tagged(MISSING, index - start)
    }
  }
}

/** A fork lies within its parent and before its end: so no branch is its own ancestor. */
function isRooted(branch: Branch, branches: readonly Branch[]): boolean {
  if (branch.parent === NO_PARENT) return true
  const parent = branches[branch.parent]
  return parent !== undefined && branch.start > parent.start && branch.start <= leafGeneration(parent)
}

function readBranch(reader: Reader): Branch {
  const parent = reader.number() - 1
  const start = reader.number()
  const count = reader.number()
  if (start === 0 || count === 0 || count * HASH_BYTES > reader.left()) throw damaged()
  const bodies = readBodies(reader, count)
  const packed = reader.bytes(count * HASH_BYTES)
  const others = new Map<number, string>()
  for (let left = reader.number(); left > 0; left--) {
    const index = reader.number()
    if (index >= count) throw damaged()
    others.set(index, reader.bytes(reader.number()).toString('utf8'))
  }
  return { parent, start, hashes: new HashList(packed, others), bodies }
}

function readBodies(reader: Reader, count: number): StoredBody[] {
  const bodies: StoredBody[] = []
  while (bodies.length < count) {
    const { tag, value } = reader.tagged()
    if (tag === LIVE) bodies.push(value)
    else if (tag === DELETED) bodies.push(-value)
    else if (value === 0 || value > count - bodies.length) throw damaged()
    else for (let left = value; left > 0; left--) bodies.push(0)
  }
  return bodies
}

class Writer {
  readonly #target: Buffer
  #at = 0

  constructor(sizeBytes: number) {
    this.#target = Buffer.allocUnsafe(sizeBytes)
  }

  byte(value: number): void {
    this.#target[this.#at++] = value
  }

  number(value: number): void {
    this.#at = writeVarint(this.#target, this.#at, value)
  }

  tagged(tag: number, value: number): void {
    const low = tag + (value % 0x20) * 4
    const rest = Math.floor(value / 0x20)
    this.byte(rest > 0 ? low + 0x80 : low)
    if (rest > 0) this.number(rest)
  }

  bytes(source: Buffer): void {
    source.copy(this.#target, this.#at)
    this.#at += source.length
  }

  written(): Buffer {
    return this.#target.subarray(0, this.#at)
  }
}

class Reader {
  readonly #source: Buffer
  #at = 0

  constructor(source: Buffer) {
    this.#source = source
  }

  byte(): number {
    const byte = this.#source[this.#at++]
    if (byte === undefined) throw damaged()
    return byte
  }

  number(): number {
    let value = 0
    let unit = 1
    let byte = this.byte()
    for (; byte >= 0x80; byte = this.byte()) {
      value += (byte - 0x80) * unit
      unit *= 0x80
    }
    value += byte * unit
    if (value > Number.MAX_SAFE_INTEGER) throw damaged()
    return value
  }

  tagged(): { tag: number; value: number } {
    const byte = this.byte()
    const low = (byte & 0x7f) >> 2
    return { tag: byte & 3, value: byte >= 0x80 ? low + 0x20 * this.number() : low }
  }

  bytes(count: number): Buffer {
    const start = this.#at
    this.#at += count
    if (this.#at > this.#source.length) throw damaged()
    return this.#source.subarray(start, this.#at)
  }

  left(): number {
    return this.#source.length - this.#at
  }

  end(): void {
    if (this.left() !== 0) throw damaged()
  }
}

function damaged(): Error {
  return new Error('The revision tree is damaged.')
}
