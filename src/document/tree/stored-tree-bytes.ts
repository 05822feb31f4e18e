/**
 * How the parts of a stored revision tree are written and read: numbers, and bodies with the status of their revisions.
 *
 *   body  the status in the two low bits of its first byte, the body number above them; without body: length of the run
 */
import { writeHexadecimal, writeVarint } from '../../encoding/bytes/short-bytes.ts'
import type { StoredBody } from './branch.ts'

export const MISSING = 0
export const LIVE = 1
export const DELETED = 2

export class StoredTreeWriter {
  readonly #target: Buffer
  #at = 0

  /** `sizeBytes` is the exact size. */
  constructor(sizeBytes: number) {
    this.#target = Buffer.allocUnsafe(sizeBytes)
  }

  byte(value: number): void {
    this.#target[this.#at++] = value
  }

  number(value: number): void {
    this.#at = writeVarint(this.#target, this.#at, value)
  }

  /** A body, or a run of revisions without one. */
  tagged(tag: number, value: number): void {
    const low = tag + (value % 0x20) * 4
    const rest = Math.floor(value / 0x20)
    this.byte(rest > 0 ? low + 0x80 : low)
    if (rest > 0) this.number(rest)
  }

  body(body: StoredBody): void {
    this.tagged(body > 0 ? LIVE : DELETED, Math.abs(body))
  }

  bodies(bodies: readonly StoredBody[]): void {
    let index = 0
    while (index < bodies.length) {
      const body = bodies[index]!
      if (body !== 0) {
        this.body(body)
        index++
      } else {
        const start = index
        while (index < bodies.length && bodies[index] === 0) index++
        this.tagged(MISSING, index - start)
      }
    }
  }

  bytes(source: Buffer, start = 0, end = source.length): void {
    this.#at += source.copy(this.#target, this.#at, start, end)
  }

  /** A hash of 32 hexadecimal digits. */
  hash(digits: string): void {
    this.#at = writeHexadecimal(this.#target, this.#at, digits, 0)
  }

  written(): Buffer {
    return this.#target.subarray(0, this.#at)
  }
}

/** Throws on anything that cannot have been written. */
export class StoredTreeReader {
  readonly #source: Buffer
  at = 0
  /** Of the body that was read last. */
  tag = MISSING

  constructor(source: Buffer, at = 0) {
    this.#source = source
    this.at = at
  }

  byte(): number {
    const byte = this.#source[this.at++]
    if (byte === undefined) throw damagedTree()
    return byte
  }

  number(): number {
    let value = 0
    let unit = 1
    let byte = this.byte()
    for (; byte >= 0x80; byte = this.byte()) {
      value += (byte - 0x80) * unit
      unit *= 0x80
    }
    value += byte * unit
    if (value > Number.MAX_SAFE_INTEGER) throw damagedTree()
    return value
  }

  /** A body's number, or the length of a run without bodies, at most `revisionsLeft`: see `tag`. */
  tagged(revisionsLeft: number): number {
    const byte = this.byte()
    const low = (byte & 0x7f) >> 2
    const value = byte >= 0x80 ? low + 0x20 * this.number() : low
    this.tag = byte & 3
    if (this.tag > DELETED || value === 0 || (this.tag === MISSING && value > revisionsLeft)) throw damagedTree()
    return value
  }

  bodies(count: number): StoredBody[] {
    const bodies: StoredBody[] = []
    while (bodies.length < count) {
      const value = this.tagged(count - bodies.length)
      if (this.tag === LIVE) bodies.push(value)
      else if (this.tag === DELETED) bodies.push(-value)
      else for (let left = value; left > 0; left--) bodies.push(0)
    }
    return bodies
  }

  bytes(count: number): Buffer {
    const start = this.at
    this.skip(count)
    return this.#source.subarray(start, this.at)
  }

  skip(count: number): void {
    this.at += count
    if (this.at > this.#source.length) throw damagedTree()
  }

  left(): number {
    return this.#source.length - this.at
  }

  end(): void {
    if (this.left() !== 0) throw damagedTree()
  }
}

export function damagedTree(): Error {
  return new Error('The revision tree is damaged.')
}
