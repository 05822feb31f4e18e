/**
 * A cursor over the keys of an LMDB file, moved by the library's native calls. It serves short ranges and counts, since a
 * range of the library costs several times as much to begin.
 */
import assert from 'node:assert/strict'
import type { RootDatabase } from 'lmdb'
import * as lmdb from 'lmdb'
import { CUT_KEY_BYTES, type StoredRange } from '../rows/stored-key.ts'

declare module 'lmdb' {
  /** What the library itself is made of. The version of it that is installed is the one that this was written for. */
  const nativeAddon: NativeCalls
  interface Transaction {
    readonly address: number
  }
  interface Database {
    readonly db: { readonly dbi: number }
  }
}

interface NativeCalls {
  readonly Cursor: new (database: object, transactionAddress: number) => NativeCursor
  /** Goes to the first key at or after the one in the key buffer; answers like `iterate`, or with a count. */
  position(cursorAddress: number, flags: number, offset: number, keySize: number, endAddress: number): number
  /** Goes to the next key and answers with its size: 0 at the end of the range, below 0 for an error. */
  iterate(cursorAddress: number): number
  getAddress(buffer: ArrayBufferLike): number
  /** Throws what the number of an error means. */
  lmdbError(code: number): void
}

interface NativeCursor {
  readonly address: number
  close(): void
}

const KEYS_ONLY = 0
const ONLY_COUNT = 0x1000

/** Where in the key buffer the calls leave a key. */
const KEY_AT = 32

/** The end of a range as the native calls expect it: its size and its bytes. Reused by all cursors. */
const end = Buffer.allocUnsafeSlow(4 + CUT_KEY_BYTES + 4)
const endSize = new DataView(end.buffer)
/** Known when the first cursor is made. */
let endAddress = 0
const isLittleEndian = new Uint8Array(Uint16Array.of(1).buffer)[0] === 1

/** One is made for a transaction and reused. */
export class LmdbCursor {
  readonly #native: NativeCursor
  /** The buffer that keys go through, the same one for all of the library. */
  readonly #keyBuffer: Uint8Array
  #keySize = 0

  /** Must be closed before the transaction ends. */
  constructor(database: RootDatabase<Uint8Array, Uint8Array>, transactionAddress: number, keyBuffer: Uint8Array) {
    const { Cursor, getAddress } = lmdb.nativeAddon
    this.#native = new Cursor(database.db, transactionAddress)
    endAddress ||= getAddress(end.buffer)
    this.#keyBuffer = keyBuffer
  }

  /** How many keys lie in the range. */
  count(range: StoredRange): number {
    const count = this.#position(range, ONLY_COUNT)
    assert(count >= 0, `LMDB does not count: ${count}.`)
    return count
  }

  /** Goes to the first key of the range; says whether there is one. */
  first(range: StoredRange): boolean {
    return this.#isAt(this.#position(range, KEYS_ONLY))
  }

  next(): boolean {
    return this.#isAt(lmdb.nativeAddon.iterate(this.#native.address))
  }

  /** A copy of the key that it is at; to be asked for before anything else is read. */
  key(): Buffer {
    const key = Buffer.allocUnsafe(this.#keySize)
    for (let i = 0; i < key.length; i++) key[i] = this.#keyBuffer[KEY_AT + i]!
    return key
  }

  close(): void {
    this.#native.close()
  }

  #position({ from, to }: StoredRange, flags: number): number {
    this.#keyBuffer.set(from)
    if (to) {
      endSize.setUint32(0, to.length, isLittleEndian)
      end.set(to, 4)
    }
    return lmdb.nativeAddon.position(this.#native.address, flags, 0, from.length, to ? endAddress : 0)
  }

  #isAt(keySize: number): boolean {
    // With the number as its code, as errors of the library have it.
    if (keySize < 0) throw Object.assign(new Error(`An LMDB cursor failed with status ${keySize}.`), { code: keySize })
    this.#keySize = keySize
    return keySize > 0
  }
}
