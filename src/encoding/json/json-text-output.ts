/**
 * What a scan of a JSON text makes: the text that is kept, and the Erlang term of its value. One of each serves all scans, for
 * a scan is never interrupted; both are there until the next one begins.
 */
import type { ByteArena } from '../bytes/byte-arena.ts'
import { ByteSink } from '../bytes/byte-sink.ts'
import { TermWriter } from '../bytes/erlang-term.ts'
import { copyBytes } from '../bytes/short-bytes.ts'

/**
 * The text a scan keeps. Most of it is the source unchanged, so it is copied in runs: a run goes on until something has
 * to be left out or replaced, and a compact document is one or two copies.
 */
class TextOutput extends ByteSink {
  #source: Buffer
  #sourceView: DataView
  #runStart = 0

  constructor() {
    super(INITIAL_SIZE_BYTES)
    this.#source = this.bytes
    this.#sourceView = this.view
  }

  /** Starts over, with a run that begins at `position` of `source`. */
  begin(source: Buffer, sourceView: DataView, position: number): void {
    this.clear()
    this.#source = source
    this.#sourceView = sourceView
    this.#runStart = position
  }

  /** Takes over the source up to `position`; the next run begins there. */
  keepTo(position: number): void {
    const start = this.#runStart
    this.#runStart = position
    const count = position - start
    if (count === 0) return
    this.#reserve(count)
    if (count > SHORT_COPY_BYTES) this.#source.copy(this.bytes, this.length, start, position)
    else this.#copyShort(start, position)
    this.length += count
  }

  /** Leaves out the source from where `keepTo` stopped up to `position`. */
  skipTo(position: number): void {
    this.#runStart = position
  }

  /** Text that the source does not have, after `keepTo`. */
  put(text: Buffer, start: number, end: number): void {
    this.#reserve(end - start)
    for (let from = start; from < end; from++) this.bytes[this.length++] = text[from]!
  }

  /** How much was kept, the source up to `position` included. */
  lengthTo(position: number): number {
    return this.length + position - this.#runStart
  }

  /** A copy of what was kept since `start`, the source up to `position` included; in the arena, if there is one. */
  copyTo(position: number, start = 0, arena?: ByteArena): Buffer {
    const kept = this.length - start
    const bytes = kept + position - this.#runStart
    const copy = arena ? arena.allocate(bytes) : Buffer.allocUnsafe(bytes)
    copyBytes(copy, 0, this.bytes, start, this.length)
    copyBytes(copy, kept, this.#source, this.#runStart, position)
    return copy
  }

  /** The same as a part of the source; undefined where something was left out or replaced since `start`. */
  runTo(position: number, start: number): Buffer | undefined {
    return this.length === start ? this.#source.subarray(this.#runStart, position) : undefined
  }

  /** Four bytes at a time, for indented text is nothing but short runs. */
  #copyShort(start: number, end: number): void {
    let from = start
    let to = this.length
    for (; from + 4 <= end; from += 4, to += 4) this.view.setInt32(to, this.#sourceView.getInt32(from))
    for (; from < end; from++, to++) this.bytes[to] = this.#source[from]!
  }

  #reserve(count: number): void {
    if (this.length + count > this.bytes.length) this.grow(count)
  }
}

const INITIAL_SIZE_BYTES = 64 * 1024
/** Up to here a loop beats the call into the engine's own copy. */
const SHORT_COPY_BYTES = 40

/** The text that the scan under way keeps. */
export const output = new TextOutput()

/** Left free before the term, so that it can be put into another one where it lies. */
export const FRONT_BYTES = 64

/** The term that the scan under way writes. */
export const term = new TermWriter(64 * 1024, FRONT_BYTES)

/** The term of the last scan, where it lies until the next one. */
export const lastTerm = {
  get sizeBytes(): number {
    return term.length - FRONT_BYTES
  },

  /** The term between the first bytes of one buffer, 64 at most, and all of another; where it lies until the next scan. */
  between(before: Uint8Array, beforeBytes: number, after: Uint8Array): Uint8Array {
    const start = FRONT_BYTES - beforeBytes
    const end = term.length
    term.append(after, 0, after.length)
    term.length = end
    const { bytes } = term
    for (let i = 0; i < beforeBytes; i++) bytes[start + i] = before[i]!
    return bytes.subarray(start, end + after.length)
  },

  copy(): Buffer {
    return term.copy(FRONT_BYTES)
  },
}

/** What `scan` makes of texts while no term may grow beyond this: see `SinkFullError`. */
export function withLargestTerm<T>(mostBytes: number, scan: () => T): T {
  term.mostBytes = mostBytes
  try {
    return scan()
  } finally {
    term.mostBytes = Number.POSITIVE_INFINITY
  }
}
