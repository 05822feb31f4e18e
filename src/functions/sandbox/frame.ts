/**
 * The frames between the server and a sandbox process: length, kind, number and payload. The receiver checks the kind, and
 * trusts nothing else that comes from a sandbox.
 */

/** What the server asks. */
export const Request = {
  /**
   * Makes an isolate for the program whose number and JSON follow. No answer: a failure is reported to the next call.
   */
  load: 1,
  drop: 2,
  /** The number of the program is in the frame's, then a byte for the operation, then JSON. */
  call: 3,
  /** Rows for a list function that waits, as a JSON array. */
  rows: 4,
  noMoreRows: 5,
} as const

/** What a sandbox says. Anything but these, or at the wrong time, and it is ended. */
export const Reply = {
  result: 1,
  error: 2,
  log: 3,
  /** Another part of the call is done: the clock starts again. */
  progress: 4,
  /** Of a list function that waits. */
  output: 5,
  /** It has started: from now on it answers for its time. */
  ready: 6,
} as const

/** Operations by their number in a call. */
export const OPERATIONS = [
  'map',
  'reduce',
  'rereduce',
  'filter',
  'filterByView',
  'validate',
  'show',
  'update',
  'list',
] as const

export type Operation = (typeof OPERATIONS)[number]

/** Of a portion of documents in a map call: how many they are, and how long the JSON array of them is that follows. */
export const PORTION_HEADER_BYTES = 8

/** Length of what follows it, kind, number. */
export const HEADER_BYTES = 9

export interface Frame {
  readonly kind: number
  readonly number: number
  readonly body: Buffer
}

/** Goes before the parts of a frame's body. */
export function frameHeader(kind: number, number: number, parts: readonly Uint8Array[]): Buffer {
  let length = HEADER_BYTES - 4
  for (const part of parts) length += part.length
  const header = Buffer.allocUnsafe(HEADER_BYTES)
  header.writeUInt32LE(length, 0)
  header[4] = kind
  header.writeUInt32LE(number, 5)
  return header
}

/** Puts frames together from the pieces that a pipe gives, copying each byte once. */
export class FrameReader {
  readonly #largestBytes: number
  readonly #header = Buffer.alloc(HEADER_BYTES)
  #headerLength = 0
  #body: Buffer | undefined
  #bodyLength = 0

  constructor(largestBytes: number) {
    this.#largestBytes = largestBytes
  }

  /** Throws where a frame is larger than the limit. */
  push(piece: Buffer, onFrame: (frame: Frame) => void): void {
    let at = 0
    while (at < piece.length) {
      if (this.#body) at = this.#fillBody(piece, at)
      else at = this.#fillHeader(piece, at)
      if (this.#body && this.#bodyLength === this.#body.length) onFrame(this.#take(this.#body))
    }
  }

  #fillHeader(piece: Buffer, at: number): number {
    const end = Math.min(piece.length, at + HEADER_BYTES - this.#headerLength)
    piece.copy(this.#header, this.#headerLength, at, end)
    this.#headerLength += end - at
    if (this.#headerLength === HEADER_BYTES) {
      const length = this.#header.readUInt32LE(0) + 4 - HEADER_BYTES
      if (length < 0 || length > this.#largestBytes) throw new RangeError('A frame is too large.')
      this.#body = Buffer.allocUnsafe(length)
      this.#bodyLength = 0
    }
    return end
  }

  #fillBody(piece: Buffer, at: number): number {
    const body = this.#body
    if (!body) return at
    const end = Math.min(piece.length, at + body.length - this.#bodyLength)
    piece.copy(body, this.#bodyLength, at, end)
    this.#bodyLength += end - at
    return end
  }

  #take(body: Buffer): Frame {
    this.#body = undefined
    this.#headerLength = 0
    return { kind: this.#header[4] ?? 0, number: this.#header.readUInt32LE(5), body }
  }
}
