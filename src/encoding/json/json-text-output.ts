import { ByteSink } from '../bytes/byte-sink.ts'
import { copyBytes } from '../bytes/short-bytes.ts'

/**
 * The text a scan keeps. Most of it is the source unchanged, so it is copied in runs: a run goes on until something has
 * to be left out or replaced, and a compact document is one or two copies.
 */
export class TextOutput extends ByteSink {
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

  /** A copy of what was kept since `start`, the source up to `position` included. */
  copyTo(position: number, start = 0): Buffer {
    const kept = this.length - start
    const copy = Buffer.allocUnsafe(kept + position - this.#runStart)
    copyBytes(copy, 0, this.bytes, start, this.length)
    copyBytes(copy, kept, this.#source, this.#runStart, position)
    return copy
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
