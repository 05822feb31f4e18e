import { freeBytes } from '../bytes/free-bytes.ts'

/**
 * The text a scan keeps. Most of it is the source unchanged, so it is copied in runs: a run goes on until something has
 * to be left out or replaced, and a compact document is one or two copies.
 */
export class TextOutput {
  bytes: Buffer = Buffer.allocUnsafeSlow(INITIAL_SIZE_BYTES)
  length = 0
  #view = viewOf(this.bytes)
  #source: Buffer = this.bytes
  #sourceView = this.#view
  #runStart = 0

  /** Starts over, with a run that begins at `position` of `source`. */
  reset(source: Buffer, sourceView: DataView, position: number): void {
    this.length = 0
    this.#source = source
    this.#sourceView = sourceView
    this.#runStart = position
    if (this.bytes.length > KEPT_SIZE_BYTES) this.#resize(INITIAL_SIZE_BYTES)
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
    copyBytes(this.bytes, start, this.length, copy, 0)
    copyBytes(this.#source, this.#runStart, position, copy, kept)
    return copy
  }

  /** Four bytes at a time, for indented text is nothing but short runs. */
  #copyShort(start: number, end: number): void {
    let from = start
    let to = this.length
    for (; from + 4 <= end; from += 4, to += 4) this.#view.setInt32(to, this.#sourceView.getInt32(from))
    for (; from < end; from++, to++) this.bytes[to] = this.#source[from]!
  }

  #reserve(count: number): void {
    if (this.length + count > this.bytes.length) this.#resize(2 * (this.length + count))
  }

  #resize(size: number): void {
    const old = this.bytes
    const bytes = Buffer.allocUnsafeSlow(size)
    old.copy(bytes, 0, 0, this.length)
    this.bytes = bytes
    this.#view = viewOf(bytes)
    if (old.length > KEPT_SIZE_BYTES) freeBytes(old)
  }
}

const INITIAL_SIZE_BYTES = 64 * 1024
const KEPT_SIZE_BYTES = 1024 * 1024
/** Up to here a loop beats the call into the engine's own copy. */
const SHORT_COPY_BYTES = 40

function copyBytes(source: Buffer, start: number, end: number, target: Buffer, targetStart: number): void {
  if (end - start > SHORT_COPY_BYTES) {
    source.copy(target, targetStart, start, end)
  } else {
    for (let from = start, to = targetStart; from < end; from++, to++) target[to] = source[from]!
  }
}

function viewOf(bytes: Buffer): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}
