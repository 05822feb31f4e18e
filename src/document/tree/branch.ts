/** The parts of a revision tree: its branches, and where revisions are in them. */
import { compareHashes, HASH_BYTES, isHexadecimal, type RevisionId, type RevisionPath } from '../ids.ts'

export type RevisionStatus = 'live' | 'deleted' | 'missing'

export interface RevisionNode {
  readonly revision: RevisionId
  readonly generation: number
  readonly hash: string
  /** `missing`: known only from a history, or compacted. */
  readonly status: RevisionStatus
  /** The number of the stored body; 0 when missing. */
  readonly body: number
}

/**
 * A line of revisions, oldest first, that ends in a leaf: there are as many branches as leaves. It forks from the revision
 * of generation `start - 1` of branch number `parent`, which is never that branch's last, or has no parent.
 */
export interface Branch {
  readonly parent: number
  readonly start: number
  readonly hashes: HashList
  readonly bodies: readonly StoredBody[]
}

/** The number of a body: negative for that of a tombstone, 0 for none. */
export type StoredBody = number

export const NO_PARENT = -1

/** Where a revision is: number of its branch, index in it. */
export interface Place {
  readonly branch: number
  readonly index: number
}

export function leafGeneration(branch: Branch): number {
  return branch.start + branch.bodies.length - 1
}

/** Orders leaves, best first: live before deleted, then the higher generation, then the higher hash. */
export function compareLeaves(left: RevisionNode, right: RevisionNode): number {
  if ((left.status === 'deleted') !== (right.status === 'deleted')) return left.status === 'deleted' ? 1 : -1
  return right.generation - left.generation || compareHashes(right.hash, left.hash)
}

/**
 * The branches of a revision tree by number. Immutable: a changed list shares most of the old one, so that a tree may grow to
 * thousands of branches one by one.
 */
export class BranchList {
  readonly length: number
  readonly #pieces: readonly (readonly Branch[])[]
  #all: readonly Branch[] | undefined

  static of(branches: readonly Branch[]): BranchList {
    if (branches.length <= PIECE_LENGTH) return new BranchList([branches], branches.length)
    const pieces: Branch[][] = []
    for (let first = 0; first < branches.length; first += PIECE_LENGTH) {
      pieces.push(branches.slice(first, first + PIECE_LENGTH))
    }
    return new BranchList(pieces, branches.length)
  }

  private constructor(pieces: readonly (readonly Branch[])[], length: number) {
    this.#pieces = pieces
    this.length = length
  }

  at(number: number): Branch {
    return this.#pieces[number >> PIECE_BITS]![number & (PIECE_LENGTH - 1)]!
  }

  all(): readonly Branch[] {
    this.#all ??= this.#pieces.length === 1 ? this.#pieces[0]! : this.#pieces.flat()
    return this.#all
  }

  /** A list with one more branch at the end. */
  append(branch: Branch): BranchList {
    const last = this.#pieces.at(-1)!
    const pieces = last.length < PIECE_LENGTH ? this.#pieces.with(-1, [...last, branch]) : [...this.#pieces, [branch]]
    return new BranchList(pieces, this.length + 1)
  }

  replace(number: number, branch: Branch): BranchList {
    const piece = number >> PIECE_BITS
    const changed = this.#pieces[piece]!.with(number & (PIECE_LENGTH - 1), branch)
    return new BranchList(this.#pieces.with(piece, changed), this.length)
  }
}

const PIECE_BITS = 7
const PIECE_LENGTH = 1 << PIECE_BITS

/**
 * The places of all revisions of a tree, for trees with so many branches that a search takes too long. It grows with the tree,
 * and belongs to the newest tree only.
 */
export class RevisionIndex {
  readonly #places = new Map<string, Place>()

  constructor(branches: readonly Branch[]) {
    for (const [number, branch] of branches.entries()) this.add(number, branch, 0)
  }

  find(generation: number, hash: string): Place | undefined {
    return this.#places.get(`${generation}-${hash}`)
  }

  /** Adds the revisions of a branch from this index on. */
  add(number: number, { start, hashes, bodies }: Branch, from: number): void {
    for (let index = from; index < bodies.length; index++) {
      this.#places.set(`${start + index}-${hashes.at(index)}`, { branch: number, index })
    }
  }
}

/**
 * The hashes of consecutive generations, oldest first, 16 bytes each in one block: a branch of a thousand revisions is
 * read, extended and written by copying, not revision by revision. The few hashes that are other text are kept aside.
 */
export class HashList {
  readonly length: number
  /** What is stored: 16 bytes a hash, zeros where the hash is kept aside. */
  readonly packed: Buffer
  /** The hashes that are not 32 hexadecimal digits, by index. */
  readonly others: ReadonlyMap<number, string>
  /** The text of the newest hash, where it is known: it is used most often. */
  readonly #newest: string | undefined

  constructor(packed: Buffer, others: ReadonlyMap<number, string> = NONE, newest?: string) {
    this.packed = packed
    this.others = others
    this.length = packed.length / HASH_BYTES
    this.#newest = newest
  }

  static of(hashes: readonly string[]): HashList {
    const packed = Buffer.alloc(hashes.length * HASH_BYTES)
    const others = new Map<number, string>()
    hashes.forEach((hash, index) => {
      if (isHexadecimal(hash)) packed.write(hash, index * HASH_BYTES, 'hex')
      else others.set(index, hash)
    })
    return new HashList(packed, others)
  }

  at(index: number): string {
    if (this.#newest !== undefined && index === this.length - 1) return this.#newest
    const start = index * HASH_BYTES
    return this.others.get(index) ?? this.packed.toString('hex', start, start + HASH_BYTES)
  }

  /** A cheap test: false for most hashes that begin with another byte. */
  mayBeginWith(index: number, firstByte: number): boolean {
    return this.packed[index * HASH_BYTES] === firstByte || this.others.size > 0
  }

  slice(start: number, end: number): HashList {
    const packed = this.packed.subarray(start * HASH_BYTES, end * HASH_BYTES)
    const within = [...this.others].filter(([index]) => index >= start && index < end)
    return new HashList(packed, new Map(within.map(([index, hash]) => [index - start, hash])))
  }

  /** This list and one newer hash. */
  append(hash: string): HashList {
    const end = this.packed.length
    const packed = Buffer.allocUnsafe(end + HASH_BYTES)
    this.packed.copy(packed)
    if (isHexadecimal(hash)) {
      packed.write(hash, end, 'hex')
      return new HashList(packed, this.others, hash)
    }
    packed.fill(0, end)
    return new HashList(packed, new Map([...this.others, [this.length, hash]]))
  }

  /** This list, followed by a newer one. */
  concat(newer: HashList): HashList {
    const packed = Buffer.concat([this.packed, newer.packed])
    if (this.others.size + newer.others.size === 0) return new HashList(packed)
    const shifted = Array.from(newer.others, ([index, hash]): [number, string] => [this.length + index, hash])
    return new HashList(packed, new Map([...this.others, ...shifted]))
  }
}

const NONE: ReadonlyMap<number, string> = new Map()

/** The path for `_revisions`, from a revision and its ancestors. */
export function pathOfAncestry(ancestry: readonly RevisionNode[]): RevisionPath {
  return { start: ancestry[0]?.generation ?? 0, hashes: ancestry.map((node) => node.hash) }
}
