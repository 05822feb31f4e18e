/** The frames of a stream, one after the other; `peek` returns the next one without taking it. */
import { type Frame, readFrames } from '../../backup/frame.ts'

export class FrameCursor {
  readonly #batches: AsyncGenerator<readonly Frame[]>
  #frames: readonly Frame[] = []
  #next = 0

  constructor(source: AsyncIterable<Buffer>) {
    this.#batches = readFrames(source)
  }

  async peek(): Promise<Frame | undefined> {
    while (this.#next >= this.#frames.length) {
      const batch = await this.#batches.next()
      if (batch.done) return undefined
      this.#frames = batch.value
      this.#next = 0
    }
    return this.#frames[this.#next]
  }

  async take(): Promise<Frame | undefined> {
    const frame = await this.peek()
    this.#next++
    return frame
  }

  async close(): Promise<void> {
    await this.#batches.return(undefined)
  }
}

/** The id of the document that a frame `revision` holds: its text begins with it. */
export function idOfRevision({ payload }: Frame): string {
  const start = BEFORE_ID.length
  let end = start + 1
  for (; payload[end] !== QUOTE && end < payload.length; end++) if (payload[end] === BACKSLASH) end++
  return String(JSON.parse(payload.toString('utf8', start, end + 1)))
}

/** The id of the document that a frame `content` belongs to. */
export function idOfContent({ payload }: Frame): string {
  return String(JSON.parse(payload.toString()).id)
}

const BEFORE_ID = '{"_id":'
const QUOTE = 0x22
const BACKSLASH = 0x5c
