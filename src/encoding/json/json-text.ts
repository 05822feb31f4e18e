/**
 * JSON text as bytes, read in one pass and never turned into objects: what a client sent is checked, minified and kept
 * with its member order and its digits, and its revision term is written on the way. A reader walks from value to value,
 * so that the documents of a bulk request are scanned once, and the caller may pause between any two of them.
 */
import { isUtf8 } from 'node:buffer'
import type { ByteArena } from '../bytes/byte-arena.ts'
import { SinkFullError } from '../bytes/byte-sink.ts'
import { keepLastOfDuplicates } from './duplicate-members.ts'
import { lastTerm, withLargestTerm } from './json-text-output.ts'
import { JsonScanner } from './json-text-scanner.ts'
import {
  CLOSE_BRACE,
  CLOSE_BRACKET,
  COLON,
  JsonTextError,
  OPEN_BRACE,
  OPEN_BRACKET,
  QUOTE,
} from './json-text-tokens.ts'

export { MAX_DEPTH } from './json-text-scanner.ts'
export { JsonTextError, MAX_INTEGER_DIGITS } from './json-text-tokens.ts'

/** A document as it was sent, taken apart. The buffers are the holder's own. */
export interface ScannedDocument<Term = Buffer> {
  /** The object without its special members: minified, in order, digits as sent. */
  readonly body: Buffer
  /** The Erlang term of the body, without the version byte: the part of the revision id that the content decides. */
  readonly term: Term
  /** The members whose names begin with an underscore, in order; the first 64. */
  readonly specials: readonly SpecialMember[]
}

export interface SpecialMember {
  readonly name: string
  /** The string that it is, or the minified text of a value of another kind. */
  value: string | Buffer
}

/** Called right after a scan, with its term where it lies. */
export type UseOfTerm<Term> = (body: Buffer, specials: readonly SpecialMember[], term: typeof lastTerm) => Term

export type JsonKind = 'object' | 'array' | 'string' | 'number' | 'boolean' | 'null'

/** Reads a text that is one document and nothing else. */
export function scanDocument(text: Buffer): ScannedDocument {
  const reader = new JsonReader(text)
  const document = reader.document()
  reader.end()
  return document
}

/** A value is longer than it may be to be read at once. */
export class LongValueError extends Error {
  override readonly name = 'LongValueError'
}

/** The body of a document is longer than it may be. */
export class LongDocumentError extends Error {
  override readonly name = 'LongDocumentError'
}

export interface JsonReaderOptions {
  /** Where the bodies of documents, and values that are read apart, are copied to; unless given, each has a memory of its own. */
  readonly arena?: ByteArena | undefined
  /** Whether the text stays until all that was read is used: long values that are read apart are parts of it then. */
  readonly isLent?: boolean
}

export class JsonReader {
  readonly #scanner: JsonScanner
  readonly #arena: ByteArena | undefined
  /** Of the document that is being read, in the order in which they came first; undefined where there are none. */
  #specials: SpecialMember[] | undefined
  readonly #addSpecial = (name: string, value: string | Buffer) => this.#setSpecial(name, value)

  constructor(text: Buffer, { arena, isLent = false }: JsonReaderOptions = {}) {
    if (!isUtf8(text)) throw new JsonTextError('The text is not UTF-8', 0)
    this.#scanner = new JsonScanner(text)
    this.#scanner.isLent = isLent
    this.#scanner.arena = arena
    this.#arena = arena
  }

  /** Where the reader stands, in bytes. */
  get position(): number {
    return this.#scanner.position
  }

  /** What the next value is, by its first byte. */
  kind(): JsonKind {
    const byte = this.#scanner.next()
    if (byte === OPEN_BRACE) return 'object'
    if (byte === OPEN_BRACKET) return 'array'
    if (byte === QUOTE) return 'string'
    if (byte === 0x74 || byte === 0x66) return 'boolean'
    if (byte === 0x6e) return 'null'
    if (byte === 0x2d || (byte >= 0x30 && byte <= 0x39)) return 'number'
    throw this.#scanner.unexpected()
  }

  /**
   * The members of the next value, an object: yields each name and stands before its value, to be read by any method. A
   * value that is not read is checked and passed over. Names that come twice are yielded twice.
   */
  *members(): Generator<string, void, void> {
    for (const { name } of this.membersAt()) yield name
  }

  /** The same, with the place where the name begins. */
  *membersAt(): Generator<{ readonly name: string; readonly nameAt: number }, void, void> {
    const scanner = this.#scanner
    scanner.expect(OPEN_BRACE)
    let first = scanner.next()
    while (first !== CLOSE_BRACE) {
      const nameAt = scanner.position
      const name = scanner.string()
      scanner.expect(COLON)
      scanner.next()
      const valueAt = scanner.position
      yield { name, nameAt }
      if (scanner.position === valueAt) this.skip()
      first = scanner.nextElement(CLOSE_BRACE)
    }
    scanner.position++
  }

  /** The elements of the next value, an array: yields each index and stands before the element, as `members` does. */
  *elements(): Generator<number, void, void> {
    const scanner = this.#scanner
    scanner.expect(OPEN_BRACKET)
    let first = scanner.next()
    for (let index = 0; first !== CLOSE_BRACKET; index++) {
      const elementAt = scanner.position
      yield index
      if (scanner.position === elementAt) this.skip()
      first = scanner.nextElement(CLOSE_BRACKET)
    }
    scanner.position++
  }

  /** The elements of the next value, an array, each as `read` makes it, which has to read it. */
  listOf<T>(read: () => T): T[] {
    const scanner = this.#scanner
    const list: T[] = []
    scanner.expect(OPEN_BRACKET)
    for (let first = scanner.next(); first !== CLOSE_BRACKET; first = scanner.nextElement(CLOSE_BRACKET))
      list.push(read())
    scanner.position++
    return list
  }

  /** The minified text of the next value. Members that come twice stay. */
  text(): Buffer {
    this.#scanner.value()
    return this.#scanner.copyText()
  }

  /** Checks the next value and passes over it. */
  skip(): void {
    this.#scanner.value()
  }

  /** The next value as JavaScript has it: for parameters, not for anything stored. */
  value(): unknown {
    return JSON.parse(this.text().toString())
  }

  /** The next value, an object, as a document. Of members that come twice the last counts, at the place of the first. */
  document(): ScannedDocument {
    return this.documentWith(copied)
  }

  /**
   * The same with what `use` makes of its term. The bytes that it is given are those of the scanner: a caller that keeps them
   * asks for a copy. Throws `LongDocumentError` where the body gets longer than it may be.
   */
  documentWith<Term>(use: UseOfTerm<Term>, { largestBytes = Number.POSITIVE_INFINITY } = {}): ScannedDocument<Term> {
    const scanner = this.#scanner
    this.#specials = undefined
    if (largestBytes === Number.POSITIVE_INFINITY) scanner.objectWithout(isSpecial, this.#addSpecial)
    else scanWithin(largestBytes, scanner, () => scanner.objectWithout(isSpecial, this.#addSpecial))
    const text = scanner.copyText(this.#arena)
    const body = scanner.hasDuplicates ? keepLastOfDuplicates(text) : text
    if (scanner.hasDuplicates) scanTerm(body)
    const specials = this.#specials ?? NO_SPECIALS
    return { body, term: use(body, specials, lastTerm), specials }
  }

  /** There are few with a meaning: of very many the first tell enough. Most documents have one. */
  #setSpecial(name: string, value: string | Buffer): void {
    const specials = this.#specials
    if (!specials) {
      this.#specials = [{ name, value }]
      return
    }
    const known = specials.find((each) => each.name === name)
    if (known) known.value = value
    else if (specials.length < MOST_SPECIALS) specials.push({ name, value })
  }

  /**
   * What `read` makes of the next value, which must end within so many bytes. Otherwise, and where it is no JSON, throws
   * `LongValueError`: nobody looked further to tell the two apart.
   */
  within<T>(limitBytes: number, read: () => T): T {
    const scanner = this.#scanner
    const { end } = scanner
    const limit = scanner.position + limitBytes
    if (end <= limit) return read()
    scanner.end = limit
    try {
      return read()
    } catch (error) {
      throw error instanceof JsonTextError ? new LongValueError() : error
    } finally {
      scanner.end = end
    }
  }

  /** Nothing but white space may be left. */
  end(): void {
    const scanner = this.#scanner
    scanner.next()
    if (scanner.position < scanner.text.length) throw scanner.unexpected()
    scanner.release()
  }
}

/** A term is at most so many times as long as its text: a number of three digits and a comma may be nine bytes. */
const TERM_GROWTH = 3

/** Before all of it is there in several forms. */
function scanWithin(largestBytes: number, scanner: JsonScanner, scan: () => void): void {
  try {
    withLargestTerm(TERM_GROWTH * largestBytes, scan)
  } catch (error) {
    throw error instanceof SinkFullError ? new LongDocumentError() : error
  }
  if (scanner.textBytes > largestBytes) throw new LongDocumentError()
}

const NO_SPECIALS: readonly SpecialMember[] = []

/** Several times as many as have a meaning. */
const MOST_SPECIALS = 64

/** Members of replication documents: they begin with an underscore, and yet belong to the body. */
const REPLICATION_MEMBERS = new Set([
  '_replication_id',
  '_replication_state',
  '_replication_state_reason',
  '_replication_state_time',
  '_replication_stats',
])

function isSpecial(name: string): boolean {
  return !REPLICATION_MEMBERS.has(name)
}

const copied: UseOfTerm<Buffer> = (_body, _specials, term) => term.copy()

/** The Erlang term of a body that was scanned before. */
export function termOf(body: Buffer): Buffer {
  scanTerm(body)
  return lastTerm.copy()
}

function scanTerm(body: Buffer): void {
  const scanner = new JsonScanner(body)
  scanner.value()
  scanner.release()
}
