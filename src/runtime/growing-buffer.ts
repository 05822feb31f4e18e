/**
 * A buffer of unknown final size. Bytes are collected in segments and joined at the end in slices: copying hundreds of
 * megabytes at once would block the event loop.
 */
import { TimeSlice } from './clock.ts'

const FIRST_BYTES = 16 * 1024
/** Each segment is as large as all before it, up to here: it is copied within some milliseconds. */
const LARGEST_SEGMENT_BYTES = 2 * 1024 * 1024

export class GrowingBuffer {
  #segments: Buffer<ArrayBuffer>[] = []
  #capacityBytes = 0
  #length = 0
  readonly #expectedBytes: number

  /** What is expected in all, where that is known: it is never made larger than that without need. */
  constructor(expectedBytes = Number.POSITIVE_INFINITY) {
    this.#expectedBytes = expectedBytes
  }

  get length(): number {
    return this.#length
  }

  /** How many bytes of memory it takes to add so many more. */
  growthFor(moreBytes: number): number {
    const missing = this.#length + moreBytes - this.#capacityBytes
    if (missing <= 0) return 0
    const usual = Math.max(missing, Math.min(this.#capacityBytes, LARGEST_SEGMENT_BYTES), FIRST_BYTES)
    const expected = this.#expectedBytes - this.#capacityBytes
    return missing <= expected ? Math.min(usual, expected) : usual
  }

  add(piece: Buffer): void {
    const growth = this.growthFor(piece.length)
    const room = this.#capacityBytes - this.#length
    const last = this.#segments.at(-1)
    if (last && room > 0) piece.copy(last, last.length - room)
    if (growth > 0) {
      const segment = Buffer.allocUnsafeSlow(growth)
      piece.copy(segment, 0, room)
      this.#segments.push(segment)
      this.#capacityBytes += growth
    }
    this.#length += piece.length
  }

  /** What was added, in a memory of its own. It is empty then. */
  async take(): Promise<Buffer> {
    const [first] = this.#segments
    const length = this.#length
    if (this.#segments.length > 1) return this.#joined()
    this.#clear()
    return first?.subarray(0, length) ?? Buffer.alloc(0)
  }

  /** Gives its memory back now, and not with the next garbage collection. */
  free(): void {
    for (const { buffer } of this.#segments) freeMemory(buffer)
    this.#clear()
  }

  async #joined(): Promise<Buffer> {
    const slice = new TimeSlice()
    const whole = Buffer.allocUnsafeSlow(this.#length)
    // From the end on: what was allocated last goes back to the system first.
    let at = this.#capacityBytes
    for (let segment = this.#segments.pop(); segment; segment = this.#segments.pop()) {
      at -= segment.length
      segment.copy(whole, at)
      // What is copied is freed at once, so that both forms together take little more than one of them.
      freeMemory(segment.buffer)
      if (slice.isOverNow) await slice.pause()
    }
    this.#clear()
    return whole
  }

  #clear(): void {
    this.#segments = []
    this.#capacityBytes = 0
    this.#length = 0
  }
}

/** Frees unused memory at once, instead of with the next garbage collection. */
export function freeMemory(buffer: ArrayBuffer): void {
  if (!buffer.detached) buffer.transfer(0)
}
