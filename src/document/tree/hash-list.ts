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
  /** The text of the newest one, where it is known: it is asked for most, above all right after it was added. */
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

  /** False for most hashes that begin otherwise, at less cost than reading them. */
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

export const HASH_BYTES = 16

/** Whether a hash is kept as bytes. Those of this length are of hexadecimal digits: others are not let in. */
export function isHexadecimal(hash: string): boolean {
  return hash.length === 2 * HASH_BYTES
}

const NONE: ReadonlyMap<number, string> = new Map()
