/** Joins the lines of changes into a block, each framed as its feed needs it. */
import type { RevisionId } from '../../document/ids.ts'
import {
  type DecodedChange,
  LINE_EXTRA_BYTES,
  lineOfLeaves,
  type StoredChange,
  writeLine,
} from '../layout/change-row.ts'

/** What stands around the lines of a feed. */
export interface LineFrame {
  readonly before: Buffer
  /** With the brace that closes the line. */
  after(sequence: number): Buffer
  readonly between: Buffer
}

const NOTHING: Buffer = Buffer.alloc(0)
const FIRST_BYTES = 1024
const DOCUMENT_MEMBER = Buffer.from(',"doc":')

export class ChangeBlockWriter {
  readonly #frame: LineFrame
  #bytes = NOTHING
  #at = 0
  #rows = 0
  #shown: number | undefined

  constructor(frame: LineFrame) {
    this.#frame = frame
  }

  get rows(): number {
    return this.#rows
  }

  /** How many bytes there are so far. */
  get size(): number {
    return this.#at
  }

  /** The last sequence that has a line. */
  get shown(): number | undefined {
    return this.#shown
  }

  /** Begins the line of a change; `end` must follow. */
  begin(change: StoredChange, leaves: 'winner' | 'all'): void {
    this.#beginFrame()
    this.#reserve(change.end - change.start + LINE_EXTRA_BYTES)
    this.#at = writeLine(this.#bytes, this.#at, change, leaves)
  }

  /** The same with these leaves of it alone. */
  beginLeaves(change: DecodedChange, leaves: readonly RevisionId[]): void {
    if (leaves.length === change.leaves.length) this.begin(change.stored, 'all')
    else {
      this.#beginFrame()
      this.#add(Buffer.from(lineOfLeaves(change.stored.sequence, change, leaves)))
    }
  }

  /** The last member of a line: its text, or what comes before it where the text is sent by itself. */
  document(text?: Buffer): void {
    this.#add(DOCUMENT_MEMBER)
    if (text) this.#add(text)
  }

  end(sequence: number): void {
    this.#add(this.#frame.after(sequence))
    this.#rows++
    this.#shown = sequence
  }

  /** What was written since the last time. */
  take(): Buffer {
    const taken = this.#at === 0 ? NOTHING : this.#bytes.subarray(0, this.#at)
    this.#bytes = NOTHING
    this.#at = 0
    return taken
  }

  #beginFrame(): void {
    if (this.#rows > 0) this.#add(this.#frame.between)
    this.#add(this.#frame.before)
  }

  #add(bytes: Buffer): void {
    if (bytes.length === 0) return
    this.#reserve(bytes.length)
    this.#at += bytes.copy(this.#bytes, this.#at)
  }

  #reserve(size: number): void {
    const needed = this.#at + size
    if (needed <= this.#bytes.length) return
    const larger = Buffer.allocUnsafe(Math.max(needed, FIRST_BYTES, 4 * this.#bytes.length))
    this.#bytes.copy(larger, 0, 0, this.#at)
    this.#bytes = larger
  }
}
