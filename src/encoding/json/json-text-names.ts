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

/**
 * Settles members that come twice in one object: the last value counts, at the place of the first. Takes text that was
 * checked and minified, where equal names are equal bytes. Rare, so it favours plainness over speed; and yet it is
 * linear: texts are joined once, at the end, however deep they are nested.
 */
export function keepLastOfDuplicates(text: Buffer): Buffer {
  // One character a byte: nothing here looks inside a character, and the way back is exact.
  const parts: string[] = []
  collect(new Rewriter(text.toString('latin1')).value(), parts)
  return Buffer.from(parts.join(''), 'latin1')
}

/** A part of the text as it was, or several of these in order. */
type Piece = string | readonly Piece[]

function collect(piece: Piece, parts: string[]): void {
  if (typeof piece === 'string') parts.push(piece)
  else for (const each of piece) collect(each, parts)
}

class Rewriter {
  readonly #text: string
  #at = 0

  constructor(text: string) {
    this.#text = text
  }

  value(): Piece {
    switch (this.#text[this.#at]) {
      case '{':
        return this.#object()
      case '[':
        return this.#array()
      case '"':
        return this.#string()
      default:
        return this.#scalar()
    }
  }

  #object(): Piece {
    // A Map keeps the place of a key that is set again.
    const members = new Map<string, Piece>()
    while (this.#text[this.#at++] !== '}') {
      if (this.#text[this.#at] === '}') continue
      const name = this.#string()
      this.#at++
      members.set(name, this.value())
    }
    const pieces: Piece[] = ['{']
    for (const [name, value] of members) pieces.push(pieces.length === 1 ? name : `,${name}`, ':', value)
    pieces.push('}')
    return pieces
  }

  #array(): Piece {
    const pieces: Piece[] = ['[']
    while (this.#text[this.#at++] !== ']') {
      if (this.#text[this.#at] === ']') continue
      if (pieces.length > 1) pieces.push(',')
      pieces.push(this.value())
    }
    pieces.push(']')
    return pieces
  }

  #string(): string {
    const start = this.#at++
    while (this.#text[this.#at] !== '"') this.#at += this.#text[this.#at] === '\\' ? 2 : 1
    return this.#text.slice(start, ++this.#at)
  }

  #scalar(): string {
    const start = this.#at
    while (this.#at < this.#text.length && !',]}'.includes(this.#text[this.#at]!)) this.#at++
    return this.#text.slice(start, this.#at)
  }
}
