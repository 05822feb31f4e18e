/**
 * Reads the usual text of `_revisions`, `{"start":2,"ids":["…","…"]}` with hashes of 32 digits, without a JSON parser: every
 * replicated document has one.
 */
import type { RevisionPath } from './ids.ts'

const BEFORE_START = Buffer.from('{"start":')
const BEFORE_HASHES = Buffer.from(',"ids":[')
const HASH_LENGTH = 32
/** A double holds numbers of this many digits exactly. */
const MOST_DIGITS = 15

/** Undefined where the text has any other form: the caller parses it as JSON. */
export function readUsualRevisions(text: Buffer): RevisionPath | undefined {
  if (!hasAt(text, 0, BEFORE_START)) return undefined
  let at = BEFORE_START.length
  let start = 0
  for (; isDigit(text[at]); at++) start = 10 * start + text[at]! - DIGIT_ZERO
  const digits = at - BEFORE_START.length
  if (digits === 0 || digits > MOST_DIGITS || text[BEFORE_START.length] === DIGIT_ZERO) return undefined
  if (!hasAt(text, at, BEFORE_HASHES)) return undefined
  at += BEFORE_HASHES.length
  const hashes: string[] = []
  for (;;) {
    const end = at + 1 + HASH_LENGTH
    if (text[at] !== QUOTE || text[end] !== QUOTE || !isHash(text, at + 1, end)) return undefined
    hashes.push(text.toString('latin1', at + 1, end))
    at = end + 2
    if (text[end + 1] === CLOSE_BRACKET) break
    if (text[end + 1] !== COMMA) return undefined
  }
  const isWhole = text[at] === CLOSE_BRACE && at + 1 === text.length
  return isWhole && start >= hashes.length ? { start, hashes } : undefined
}

function hasAt(text: Buffer, at: number, part: Buffer): boolean {
  for (let i = 0; i < part.length; i++) if (text[at + i] !== part[i]) return false
  return true
}

function isHash(text: Buffer, start: number, end: number): boolean {
  for (let at = start; at < end; at++) {
    const byte = text[at]
    if (!isDigit(byte) && !(byte !== undefined && byte >= LETTER_A && byte <= LETTER_F)) return false
  }
  return true
}

function isDigit(byte: number | undefined): boolean {
  return byte !== undefined && byte >= DIGIT_ZERO && byte <= DIGIT_NINE
}

const QUOTE = 0x22
const COMMA = 0x2c
const CLOSE_BRACKET = 0x5d
const CLOSE_BRACE = 0x7d
const DIGIT_ZERO = 0x30
const DIGIT_NINE = 0x39
const LETTER_A = 0x61
const LETTER_F = 0x66
