/**
 * One pass over the values of a JSON text, objects and arrays included: drops white space, and writes the Erlang term of the
 * value beside its text. Some members of an object may be read apart; a name that comes twice is noticed.
 */
import type { ByteArena } from '../bytes/byte-arena.ts'
import { FRONT_BYTES, output, term } from './json-text-output.ts'
import {
  BACKSLASH,
  bytesOf,
  CLOSE_BRACE,
  CLOSE_BRACKET,
  COLON,
  isDigit,
  JsonTextError,
  JsonTokens,
  MINUS,
  OPEN_BRACE,
  OPEN_BRACKET,
  QUOTE,
  UNDERSCORE,
} from './json-text-tokens.ts'

/** Bounded, so that nothing sent can exhaust the stack. */
export const MAX_DEPTH = 1000

/** A value apart that is shorter is copied: to keep the whole text for it would cost more. */
const SHORT_VALUE_BYTES = 4096

/** The string that it is, or the minified text of a value of another kind. */
export type ValueApart = string | Buffer

export class JsonScanner extends JsonTokens {
  /** Whether some object of the last scan has a member twice; both are then in its text and its term. */
  hasDuplicates = false
  /** Whether long values apart may be parts of the text itself. */
  isLent = false
  /** Where values apart are copied to; unless set, each has a memory of its own. */
  arena: ByteArena | undefined

  /** The next value, whatever it is. */
  value(): void {
    this.#begin()
    this.#value(1)
    this.isKeeping = false
  }

  /** The next value, a string, as such. */
  string(): string {
    this.#begin()
    if (this.next() !== QUOTE) throw this.unexpected()
    this.scanString()
    this.isKeeping = false
    return term.bytes.toString('utf8', FRONT_BYTES + BINARY_HEADER_BYTES, term.length)
  }

  /**
   * The next value, an object, without some of its members: each whose name begins with an underscore and that `isApart`
   * claims is handed to `apart` instead.
   */
  objectWithout(isApart: (name: string) => boolean, apart: (name: string, value: ValueApart) => void): void {
    this.#begin()
    this.expect(OPEN_BRACE)
    term.tuple(1)
    const list = term.openList()
    const object = names.open()
    let kept = 0
    let leftOutLast = false
    let first = this.next()
    while (first !== CLOSE_BRACE) {
      const textStart = this.#startOfUnderscoreName()
      const termStart = term.length
      const nameStart = this.#name(first)
      const nameApart = textStart >= 0 ? underscoreName(nameStart, isApart) : undefined
      leftOutLast = nameApart !== undefined
      if (nameApart !== undefined) {
        apart(nameApart, this.#valueApart())
        term.length = termStart
        first = this.nextElement(CLOSE_BRACE)
        // The comma before it serves the next member.
        output.length = textStart
        output.skipTo(this.position)
      } else {
        this.#memberAfterName(object, nameStart, 1)
        kept++
        first = this.nextElement(CLOSE_BRACE)
      }
    }
    if (leftOutLast && kept > 0) output.length--
    this.position++
    names.close(object)
    term.closeList(list, kept)
    this.isKeeping = false
  }

  /** How long the text of the last scan is. */
  get textBytes(): number {
    return output.lengthTo(this.position)
  }

  /** A copy of the text of the last scan; to be taken before anything else is read. */
  copyText(arena?: ByteArena): Buffer {
    return output.copyTo(this.position, 0, arena)
  }

  #begin(): void {
    this.next()
    this.isKeeping = true
    this.hasDuplicates = false
    output.begin(this.text, this.view, this.position)
    term.clear()
    names.reset()
  }

  #value(depth: number): void {
    const byte = this.next()
    if (byte === QUOTE) this.scanString()
    else if (byte === MINUS || isDigit(byte)) this.scanNumber()
    else if (byte === OPEN_BRACE) this.#object(depth)
    else if (byte === OPEN_BRACKET) this.#array(depth)
    else this.scanLiteral(byte)
  }

  #object(depth: number): void {
    this.#enter(depth)
    term.tuple(1)
    const list = term.openList()
    const object = names.open()
    let count = 0
    let first = this.next()
    while (first !== CLOSE_BRACE) {
      this.#memberAfterName(object, this.#name(first), depth)
      count++
      first = this.nextElement(CLOSE_BRACE)
    }
    this.position++
    names.close(object)
    term.closeList(list, count)
  }

  #array(depth: number): void {
    this.#enter(depth)
    const list = term.openList()
    let count = 0
    let allBytes = true
    let first = this.next()
    while (first !== CLOSE_BRACKET) {
      const start = term.length
      this.#value(depth + 1)
      allBytes &&= term.isByteSince(start)
      count++
      first = this.nextElement(CLOSE_BRACKET)
    }
    this.position++
    if (allBytes) term.closeByteList(list, count)
    else term.closeList(list, count)
  }

  #enter(depth: number): void {
    if (depth > MAX_DEPTH) throw new JsonTextError(`Nested deeper than ${MAX_DEPTH} levels`, this.position)
    this.position++
  }

  /** Opens the pair of a member and scans its name; where that begins in the term. */
  #name(first: number): number {
    if (first !== QUOTE) throw this.unexpected()
    term.tuple(2)
    const start = term.length + BINARY_HEADER_BYTES
    this.scanString()
    return start
  }

  #memberAfterName(object: number, nameStart: number, depth: number): void {
    if (names.add(object, term.bytes, nameStart, term.length)) this.hasDuplicates = true
    this.expect(COLON)
    this.#value(depth + 1)
  }

  /** Where a name that may begin with an underscore will stand in the text, or -1: then it surely begins otherwise. */
  #startOfUnderscoreName(): number {
    const byte = this.byteAt(this.position + 1)
    if (byte !== UNDERSCORE && byte !== BACKSLASH) return -1
    output.keepTo(this.position)
    return output.length
  }

  /** A value that is not part of the term, so the limit on the term does not apply. Duplicates inside it are checked by its reader. */
  #valueApart(): ValueApart {
    const { mostBytes } = term
    term.mostBytes = Number.POSITIVE_INFINITY
    try {
      this.expect(COLON)
      return this.next() === QUOTE ? this.#stringApart() : this.#textApart()
    } finally {
      term.mostBytes = mostBytes
    }
  }

  #stringApart(): string {
    const start = term.length + BINARY_HEADER_BYTES
    this.scanString()
    return term.bytes.toString('utf8', start, term.length)
  }

  #textApart(): Buffer {
    const hadDuplicates = this.hasDuplicates
    output.keepTo(this.position)
    const start = output.length
    this.#value(2)
    this.hasDuplicates = hadDuplicates
    const lent = this.isLent ? output.runTo(this.position, start) : undefined
    return lent && lent.length > SHORT_VALUE_BYTES ? lent : output.copyTo(this.position, start, this.arena)
  }
}

/** Before the bytes of a string in a term. */
const BINARY_HEADER_BYTES = 5

/** Decoding a name costs more than comparing it with the few that nearly every document has. */
const USUAL_NAMES = ['_id', '_rev', '_deleted', '_revisions', '_attachments'].map((name) => ({
  name,
  bytes: bytesOf(name),
}))

/** The name just written to the term, if it begins with an underscore and is claimed. */
function underscoreName(start: number, isApart: (name: string) => boolean): string | undefined {
  if (start === term.length || term.bytes[start] !== UNDERSCORE) return undefined
  const name = usualName(start) ?? term.bytes.toString('utf8', start, term.length)
  return isApart(name) ? name : undefined
}

function usualName(start: number): string | undefined {
  const { bytes, length } = term
  for (const usual of USUAL_NAMES) {
    if (usual.bytes.length !== length - start) continue
    if (usual.bytes.every((byte, index) => byte === bytes[start + index])) return usual.name
  }
  return undefined
}

/**
 * The member names of the objects a scan is inside of, to notice a name that comes twice. A short object is a list of
 * signatures, compared one by one; a long one is a set, so that no text takes quadratic time.
 */
class NameStack {
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

  /** Notes a name, which must stay where it is in `bytes` until `close`. Returns whether the object had it already. */
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

/** One serves all scans, for a scan is never interrupted. */
const names = new NameStack()
