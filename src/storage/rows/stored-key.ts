/**
 * Keys and values as an engine stores them. A key of 2,000 bytes or more is cut and closed with a digest; the whole key is
 * then in the value. Lookups and ranges stay exact. Only the order among keys that agree in their first 1,984 bytes is that
 * of their digests. The key that is a single zero byte holds the number of the last commit.
 */
import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import type { KeyRange } from '../store.ts'

/** The length of every cut key; a key that is not cut is shorter. */
export const CUT_KEY_BYTES = 2000
const DIGEST_BYTES = 16
const PREFIX_BYTES = CUT_KEY_BYTES - DIGEST_BYTES

/** Keys up to this length lie in the order of their bytes; longer ones that agree so far may lie in any. */
export const ORDERED_KEY_BYTES = PREFIX_BYTES

export function isCut(storedKey: Uint8Array | number): boolean {
  return (typeof storedKey === 'number' ? storedKey : storedKey.length) === CUT_KEY_BYTES
}

/** Whether a key is stored as it is. */
export function isWhole(key: Uint8Array): boolean {
  return key.length < CUT_KEY_BYTES
}

export function storedKey(key: Uint8Array): Uint8Array {
  if (isWhole(key)) return key
  const cut = Buffer.allocUnsafe(CUT_KEY_BYTES)
  cut.set(key.subarray(0, PREFIX_BYTES))
  cut.set(hash('sha256', key, 'buffer').subarray(0, DIGEST_BYTES), PREFIX_BYTES)
  return cut
}

export function storedValue(key: Uint8Array, value: Uint8Array): Uint8Array {
  if (isWhole(key)) return value
  const stored = Buffer.allocUnsafe(4 + key.length + value.length)
  stored.writeUInt32BE(key.length, 0)
  stored.set(key, 4)
  stored.set(value, 4 + key.length)
  return stored
}

/** The key that was cut, out of the value stored under the cut one. */
export function wholeKey(stored: Buffer): Buffer {
  return stored.subarray(4, 4 + stored.readUInt32BE(0))
}

export function wholeValue(stored: Buffer): Buffer {
  return stored.subarray(4 + stored.readUInt32BE(0))
}

/**
 * A range in terms of stored keys. Where a bound is a long key the stored range is wider than the range meant, and
 * `contains` must be asked about the whole key of each row.
 */
export interface StoredRange {
  readonly from: Uint8Array
  readonly to: Uint8Array | undefined
  readonly contains: ((wholeKey: Uint8Array) => boolean) | undefined
}

const FIRST_KEY = Buffer.of(1)

export function storedRange({ from, to }: KeyRange): StoredRange {
  // A bound that reaches beyond the cut cannot be held against a digest, though a key of its length is stored whole.
  const longFrom = from !== undefined && from.length > PREFIX_BYTES
  const longTo = to !== undefined && to.length > PREFIX_BYTES
  return {
    // Keys that begin with a zero byte belong to the engine.
    from:
      from === undefined || from.length === 0 || from[0] === 0
        ? FIRST_KEY
        : longFrom
          ? from.subarray(0, PREFIX_BYTES)
          : from,
    to: longTo ? afterAllCutsOf(to) : to,
    contains:
      longFrom || longTo
        ? (key) => (!longFrom || Buffer.compare(key, from) >= 0) && (!longTo || Buffer.compare(key, to) < 0)
        : undefined,
  }
}

/** What is left of a range, in whatever state, after the row of this key. */
export function rangeAfter(range: KeyRange, key: Uint8Array): KeyRange {
  return { ...range, resume: storedKey(key) }
}

/** Above every stored key that shares the part of the key before the cut. */
function afterAllCutsOf(key: Uint8Array): Uint8Array {
  const bound = Buffer.alloc(CUT_KEY_BYTES + 1, 0xff)
  bound.set(key.subarray(0, PREFIX_BYTES))
  return bound
}

/** Keys that begin with a zero byte are the engine's own. */
export const VERSION_KEY = Buffer.of(0)

/** The exponent of a double, in the last two bytes of a version. */
const NO_NUMBER = 0xf07f

export function versionBytes(version: number): Buffer {
  assert(Number.isSafeInteger(version))
  const bytes = Buffer.allocUnsafe(8)
  bytes.writeBigUInt64BE(BigInt(version))
  return bytes
}

/**
 * The version after this one. Those whose bytes are no number when they are read as a double are left out: the library
 * compares versions in that form, and could not compare these.
 */
export function nextVersion(version: number): number {
  const next = version + 1
  return (next & NO_NUMBER) === NO_NUMBER ? next + 1 : next
}

/** A store that was never written to is of version 0. */
export function versionOf(bytes: Buffer | undefined): number {
  return bytes ? Number(bytes.readBigUInt64BE()) : 0
}
