/**
 * The key of a group: equal keys, or equal first elements of array keys. Equal means equal values, which is stricter
 * than equal collation: if a sort key is inexact, the texts are compared.
 */
import assert from 'node:assert/strict'
import { type Collation, collationKey, rawCollationKey } from '../../encoding/collation/collation-key.ts'
import { type StoredRow, sortKeyOfRow } from '../layout/index-layout.ts'

export type GroupLevel = number | 'exact'

/** How the keys of rows are made. */
export interface GroupedKeys {
  readonly collation: Collation
  /** Of the partition that the rows are of, where there is one. */
  readonly scope: Buffer | undefined
}

export class GroupKey {
  /** The JSON text of the key of the whole group. */
  readonly text: Buffer
  /** The sort keys of all its rows begin with this, and with no row of another group between them where all are exact. */
  readonly prefix: Buffer
  readonly #level: GroupLevel
  readonly #isExact: boolean

  /** Of the group that a row belongs to; `key` is the row's without the prefix of the view. */
  constructor(level: GroupLevel, { collation, scope }: GroupedKeys, key: Buffer, row: StoredRow) {
    const head = level === 'exact' ? WHOLE : headOf(row.key, level)
    this.text = head.kind === 'cut' ? Buffer.concat([row.key.subarray(0, head.length), CLOSE]) : row.key
    this.prefix = head.kind === 'cut' ? openKey(this.text, collation, scope) : wholeKey(key, row, head)
    this.#level = level
    this.#isExact = row.exact
    assert(startsWith(key, this.prefix), 'The sort key of a row is not that of its key.')
  }

  has(key: Buffer, row: StoredRow): boolean {
    if (!startsWith(key, this.prefix)) return false
    return (this.#isExact && row.exact) || isSameValue(this.text, this.#textOf(row))
  }

  #textOf({ key }: StoredRow): Buffer {
    const head = this.#level === 'exact' ? WHOLE : headOf(key, this.#level)
    return head.kind === 'cut' ? Buffer.concat([key.subarray(0, head.length), CLOSE]) : key
  }
}

/**
 * Which part of a key counts: all of it, because it is shorter or no array; all of it together with longer arrays that
 * begin with it; or so many bytes of its text, which is that of an array with more elements.
 */
type Head = { readonly kind: 'whole' | 'full' } | { readonly kind: 'cut'; readonly length: number }

const WHOLE: Head = { kind: 'whole' }
const FULL: Head = { kind: 'full' }

function headOf(key: Buffer, elements: number): Head {
  if (key[0] !== OPEN_BRACKET) return WHOLE
  let depth = 0
  let begun = 0
  let isBetween = true
  for (let at = 0; at < key.length; at++) {
    const byte = key[at]!
    if (byte <= BLANK) continue
    if (byte === CLOSE_BRACKET || byte === CLOSE_BRACE) {
      depth--
      continue
    }
    if (byte === COMMA) {
      if (depth === 1 && begun === elements) return { kind: 'cut', length: at }
      isBetween ||= depth === 1
      continue
    }
    if (depth === 1 && isBetween) {
      begun++
      isBetween = false
    }
    if (byte === QUOTE) at = endOfText(key, at)
    else if (byte === OPEN_BRACKET || byte === OPEN_BRACE) depth++
  }
  return begun === elements ? FULL : WHOLE
}

/** Where the quote is that ends the text which begins at a quote. */
function endOfText(json: Buffer, start: number): number {
  let at = start + 1
  while (at < json.length && json[at] !== QUOTE) at += json[at] === BACKSLASH ? 2 : 1
  return at
}

/** The sort key of an array without its end, so that longer ones begin with it. */
function openKey(text: Buffer, collation: Collation, scope: Buffer | undefined): Buffer {
  const value = JSON.parse(text.toString())
  const key = (collation === 'raw' ? rawCollationKey(value) : collationKey(value)).subarray(0, -1)
  return scope ? Buffer.concat([scope, key]) : key
}

function wholeKey(key: Buffer, row: StoredRow, { kind }: Head): Buffer {
  const sortKey = sortKeyOfRow(key, JSON.parse(row.id.toString()))
  return kind === 'full' ? sortKey.subarray(0, -1) : sortKey
}

/** Called for every row: for short prefixes a loop is faster than a call. */
function startsWith(key: Buffer, prefix: Buffer): boolean {
  if (key.length < prefix.length) return false
  if (prefix.length > SHORT_BYTES) return key.compare(prefix, 0, prefix.length, 0, prefix.length) === 0
  for (let i = 0; i < prefix.length; i++) if (key[i] !== prefix[i]) return false
  return true
}

const SHORT_BYTES = 64

/** The order of an object's members counts; how a number is written does not. */
function isSameValue(a: Buffer, b: Buffer): boolean {
  return a.equals(b) || JSON.stringify(JSON.parse(a.toString())) === JSON.stringify(JSON.parse(b.toString()))
}

const CLOSE = Buffer.from(']')
const BLANK = 0x20
const QUOTE = 0x22
const COMMA = 0x2c
const OPEN_BRACKET = 0x5b
const BACKSLASH = 0x5c
const CLOSE_BRACKET = 0x5d
const OPEN_BRACE = 0x7b
const CLOSE_BRACE = 0x7d
