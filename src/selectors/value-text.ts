/**
 * JSON values where they lie in a text. The text is valid and has no blanks between its tokens, as documents are stored;
 * nothing is built of it.
 */
import { endOfValue } from '../encoding/collation/plain-key-writer.ts'
import { spend, WORK_A_BYTE, WORK_A_PARSED_VALUE, WORK_A_STRING, WORK_A_VALUE } from './match-work.ts'

export type ValueType = 'null' | 'boolean' | 'number' | 'string' | 'array' | 'object'

export const QUOTE = 0x22
export const BACKSLASH = 0x5c
const COMMA = 0x2c
const OPEN_ARRAY = 0x5b
const CLOSE_ARRAY = 0x5d
const OPEN_OBJECT = 0x7b
const CLOSE_OBJECT = 0x7d
const LETTER_F = 0x66
const LETTER_N = 0x6e
const LETTER_T = 0x74

export function typeAt(text: Buffer, at: number): ValueType {
  switch (text[at]) {
    case QUOTE:
      return 'string'
    case OPEN_OBJECT:
      return 'object'
    case OPEN_ARRAY:
      return 'array'
    case LETTER_N:
      return 'null'
    case LETTER_T:
    case LETTER_F:
      return 'boolean'
    default:
      return 'number'
  }
}

export function isTrueAt(text: Buffer, at: number): boolean {
  return text[at] === LETTER_T
}

/** The quote that ends the string which begins at a quote. */
export function endOfString(text: Buffer, start: number): number {
  let at = start + 1
  while (text[at] !== QUOTE) {
    if (at >= text.length) return at
    at += text[at] === BACKSLASH ? 2 : 1
  }
  return at
}

/** The string that begins at a quote. */
export function stringAt(text: Buffer, start: number): string {
  const end = endOfString(text, start)
  spend(WORK_A_STRING + (end - start) * WORK_A_BYTE)
  const inner = text.toString('utf8', start + 1, end)
  if (!inner.includes('\\')) return inner
  spend(WORK_A_PARSED_VALUE)
  return JSON.parse(`"${inner}"`)
}

/** Whole numbers with up to this many digits are exact. */
const EXACT_DIGITS = 15
const MINUS = 0x2d
const ZERO = 0x30

export function numberAt(text: Buffer, start: number): number {
  const first = text[start] === MINUS ? start + 1 : start
  let at = first
  let value = 0
  for (; text[at]! >= ZERO && text[at]! <= ZERO + 9; at++) value = 10 * value + text[at]! - ZERO
  const isPlain = at - first <= EXACT_DIGITS && endsNumber(text[at])
  if (!isPlain) return Number(text.toString('latin1', start, endOfValue(text, start)))
  return first > start ? -value : value
}

function endsNumber(byte: number | undefined): boolean {
  return byte === undefined || byte === COMMA || byte === CLOSE_ARRAY || byte === CLOSE_OBJECT
}

/** The value as JavaScript has it. */
export function valueAt(text: Buffer, start: number): unknown {
  return JSON.parse(text.toString('utf8', start, endOfValue(text, start)))
}

/** The end of the value that begins here. Skipping many values counts as work. */
export function passOver(text: Buffer, start: number): number {
  const end = endOfValue(text, start)
  spend(WORK_A_VALUE + (end - start) * WORK_A_BYTE)
  return end
}

/** Calls back with the place of each element of the array that begins here, until one call answers true. */
export function someElement(text: Buffer, start: number, test: (at: number) => boolean): boolean {
  let at = start + 1
  if (text[at] === CLOSE_ARRAY) return false
  for (;;) {
    if (test(at)) return true
    at = passOver(text, at)
    if (text[at] !== COMMA) return false
    at++
  }
}

/** Calls back with the places of name and value of each member of the object that begins here, until one call answers true. */
export function someMember(text: Buffer, start: number, test: (nameAt: number, valueAt: number) => boolean): boolean {
  let at = start + 1
  if (text[at] === CLOSE_OBJECT) return false
  for (;;) {
    const value = endOfString(text, at) + 2
    if (test(at, value)) return true
    at = passOver(text, value)
    if (text[at] !== COMMA) return false
    at++
  }
}

/** Whether the bytes of a name, without its quotes, are those of a field. Escapes are not undone. */
export function isSameName(text: Buffer, start: number, end: number, { bytes }: FieldName): boolean {
  if (end - start !== bytes.length) return false
  for (let i = 0; i < bytes.length; i++) if (text[start + i] !== bytes[i]) return false
  return true
}

/** A member name in both forms. */
export interface FieldName {
  readonly unescaped: string
  /** As JSON writes it, without quotes. */
  readonly bytes: Buffer
}

export function fieldName(unescaped: string): FieldName {
  return { unescaped, bytes: Buffer.from(JSON.stringify(unescaped).slice(1, -1)) }
}

/** Whether a stretch of a text has a backslash. */
export function hasEscape(text: Buffer, start: number, end: number): boolean {
  for (let at = start; at < end; at++) if (text[at] === BACKSLASH) return true
  return false
}
