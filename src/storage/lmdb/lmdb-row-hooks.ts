/**
 * The encoder of keys and values that the LMDB library calls for each row of a range: it hands the bytes, which lie in
 * buffers that the next row reuses, straight to the page under construction, so no object is made for a row.
 */
import assert from 'node:assert/strict'
import { isCut } from '../rows/stored-key.ts'
import type { PageBuilder } from '../snapshots/row-page.ts'

export class LmdbRowHooks {
  #builder: PageBuilder | undefined
  #lookUp: ((storedKey: Uint8Array) => Buffer | undefined) | undefined
  #keySource: Uint8Array = Buffer.alloc(0)
  #keyStart = 0
  #keyEnd = 0
  #onWritten: ((target: Uint8Array) => void) | undefined

  /** From here on rows go to this page. `lookUp` is given when the library reads keys only. */
  collectInto(builder: PageBuilder | undefined, lookUp: ((key: Uint8Array) => Buffer | undefined) | undefined): void {
    this.#builder = builder
    this.#lookUp = lookUp
  }

  /** The buffer into which a key is written while the library looks for it. */
  bufferOfKey(lookUp: () => void): Uint8Array {
    let buffer: Uint8Array | undefined
    this.#onWritten = (target) => {
      buffer = target
    }
    lookUp()
    this.#onWritten = undefined
    assert(buffer, 'The library writes a key before it looks for it.')
    return buffer
  }

  lastKey(): Uint8Array {
    // A copy: the next read of anybody fills the same buffer.
    return Buffer.from(this.#keySource.subarray(this.#keyStart, this.#keyEnd))
  }

  readonly writeKey = (key: Uint8Array, target: Uint8Array, start: number): number => {
    this.#onWritten?.(target)
    target.set(key, start)
    return start + key.length
  }

  readonly readKey = (source: Uint8Array, start: number, end: number): undefined => {
    this.#keySource = source
    this.#keyStart = start
    this.#keyEnd = end
    if (!this.#lookUp) return
    // A cut key is whole only in its value.
    if (isCut(end - start)) {
      const key = this.lastKey()
      const value = this.#lookUp(key) ?? Buffer.alloc(0)
      this.#keySource = key
      this.#keyStart = 0
      this.#keyEnd = key.length
      this.#builder?.add(key, 0, key.length, value, value.length)
    } else this.#builder?.add(source, start, end, source, 0)
  }

  readonly encode = (value: Uint8Array): Uint8Array => value

  readonly decode = (value: Uint8Array, size: number): undefined => {
    this.#builder?.add(this.#keySource, this.#keyStart, this.#keyEnd, value, size)
  }
}
