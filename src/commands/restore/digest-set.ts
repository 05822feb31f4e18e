/** A set of texts that keeps a digest of 16 bytes of each: the ids of millions of documents fit into memory. */
import { hash } from 'node:crypto'

const WORDS = 4
const FIRST_SLOTS = 1024

export class DigestSet {
  #slots = new Uint32Array(FIRST_SLOTS * WORDS)
  #size = 0

  get size(): number {
    return this.#size
  }

  has(text: string): boolean {
    if (this.#size === 0) return false
    const digest = digestOf(text)
    return !isFree(this.#slots, slotFor(this.#slots, digest))
  }

  add(text: string): void {
    if (2 * (this.#size + 1) * WORDS > this.#slots.length) this.#grow()
    const digest = digestOf(text)
    const at = slotFor(this.#slots, digest)
    if (!isFree(this.#slots, at)) return
    this.#slots.set(digest, at)
    this.#size++
  }

  #grow(): void {
    const before = this.#slots
    this.#slots = new Uint32Array(before.length * 2)
    for (let at = 0; at < before.length; at += WORDS) {
      const digest = before.subarray(at, at + WORDS)
      if (!isFree(before, at)) this.#slots.set(digest, slotFor(this.#slots, digest))
    }
  }
}

function digestOf(text: string): Uint32Array {
  const bytes = hash('md5', text, 'buffer')
  const digest = new Uint32Array(WORDS)
  for (let word = 0; word < WORDS; word++) digest[word] = bytes.readUInt32LE(4 * word)
  // All zeros mean a free slot.
  digest[0]! |= 1
  return digest
}

function isFree(slots: Uint32Array, at: number): boolean {
  return slots[at] === 0
}

/** Where the digest is, or where it would go. */
function slotFor(slots: Uint32Array, digest: Uint32Array): number {
  const count = slots.length / WORDS
  for (let slot = digest[1]! % count; ; slot = (slot + 1) % count) {
    const at = slot * WORDS
    if (isFree(slots, at)) return at
    if (digest.every((word, i) => slots[at + i] === word)) return at
  }
}
