/**
 * The member names of the objects a scan is inside of, to notice a name that comes twice. A short object is a list of
 * signatures, compared one by one; a long one is a set, so that no text takes quadratic time.
 */
export class NameStack {
  #entries = new Int32Array(ENTRY * 1024)
  #top = 0
  readonly #sets = new Map<number, Set<string>>()

  reset(): void {
    this.#top = 0
    if (this.#sets.size > 0) this.#sets.clear()
  }

  /** Enters an object; `add` and `close` are given what this returns. */
  open(): number {
    return this.#top
  }

  close(object: number): void {
    this.#top = object
    if (this.#sets.size > 0) this.#sets.delete(object)
  }

  /** Notes a name, which must stay where it is in `bytes` until `close`. Tells whether the object had it already. */
  add(object: number, bytes: Buffer, start: number, end: number): boolean {
    const top = this.#top
    if (top - object >= LISTED_NAMES * ENTRY) return this.#addToSet(object, bytes, start, end)

    const signature = signatureOf(bytes, start, end)
    const entries = this.#entries
    for (let entry = object; entry < top; entry += ENTRY) {
      if (entries[entry] === signature && sameBytes(bytes, entries[entry + 1]!, entries[entry + 2]!, start, end))
        return true
    }
    this.#push(signature, start, end)
    return false
  }

  #push(signature: number, start: number, end: number): void {
    const top = this.#top
    if (top + ENTRY > this.#entries.length) {
      const entries = new Int32Array(2 * this.#entries.length)
      entries.set(this.#entries)
      this.#entries = entries
    }
    this.#entries[top] = signature
    this.#entries[top + 1] = start
    this.#entries[top + 2] = end
    this.#top = top + ENTRY
  }

  #addToSet(object: number, bytes: Buffer, start: number, end: number): boolean {
    let set = this.#sets.get(object)
    if (set === undefined) {
      set = new Set()
      for (let entry = object; entry < this.#top; entry += ENTRY) {
        set.add(bytes.toString('latin1', this.#entries[entry + 1]!, this.#entries[entry + 2]!))
      }
      this.#sets.set(object, set)
    }
    const size = set.size
    return set.add(bytes.toString('latin1', start, end)).size === size
  }
}

/** Signature, start, end. */
const ENTRY = 3
const LISTED_NAMES = 64

/** Cheap, and different for most names that differ: equal signatures are settled by the bytes. */
function signatureOf(bytes: Buffer, start: number, end: number): number {
  const length = end - start
  if (length === 0) return 0
  return (length << 24) ^ (bytes[start]! << 16) ^ (bytes[start + (length >> 1)]! << 8) ^ bytes[end - 1]!
}

function sameBytes(bytes: Buffer, start: number, end: number, otherStart: number, otherEnd: number): boolean {
  if (end - start !== otherEnd - otherStart) return false
  for (let at = start, other = otherStart; at < end; at++, other++) {
    if (bytes[at] !== bytes[other]) return false
  }
  return true
}
