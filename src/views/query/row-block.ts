/** Rows of an answer as a page of the store has them, and the texts of rows in whatever form they are. */
import type { RowBlock, RowBytes } from '../../database/listing/row-block.ts'
import type { Page } from '../../storage/store.ts'
import { lineStart, StoredRow } from '../layout/index-layout.ts'

/** The JSON text of each row. */
export async function textsOf(block: RowBlock): Promise<string[]> {
  if ('takeJoined' in block) return block.texts()
  const texts: string[] = []
  for (const row of block) texts.push(typeof row === 'string' ? row : await joined(row))
  return texts
}

async function joined(pieces: AsyncIterable<string | Buffer>): Promise<string> {
  const bytes: Buffer[] = []
  for await (const piece of pieces) bytes.push(typeof piece === 'string' ? Buffer.from(piece) : piece)
  return Buffer.concat(bytes).toString()
}

/** Rows of a page, one after the other. */
export class StoredRows implements RowBytes {
  readonly #page: Page
  readonly #first: number
  readonly length: number

  /** From row `first` of the page on, and no more than `limit`. */
  constructor(
    page: Page,
    { first = 0, limit = page.length }: { readonly first?: number; readonly limit?: number } = {},
  ) {
    this.#page = page
    this.#first = first
    this.length = Math.min(limit, page.length - first)
  }

  row(index: number): StoredRow {
    return new StoredRow(this.#page.value(this.#first + index))
  }

  texts(): string[] {
    return Array.from({ length: this.length }, (_, index) => this.row(index).line.toString())
  }

  /**
   * They are joined where they lie: each is preceded by its key, which leaves room for what goes between, and lines only
   * ever move towards the front.
   */
  takeJoined({ afterOthers }: { readonly afterOthers: boolean }): Buffer {
    const { block, bounds } = this.#page
    let end = 0
    for (let row = this.#first; row < this.#first + this.length; row++) {
      const line = lineStart(block, bounds[3 * row + 1]!)
      const lineEnd = bounds[3 * row + 2]!
      if (afterOthers || end > 0) {
        block[end++] = COMMA
        block[end++] = CARRIAGE_RETURN
        block[end++] = LINE_FEED
      }
      block.copyWithin(end, line, lineEnd)
      end += lineEnd - line
    }
    return block.subarray(0, end)
  }
}

/** Rows that are texts already. */
export class TextRows implements RowBytes {
  readonly #texts: readonly string[]

  constructor(texts: readonly string[]) {
    this.#texts = texts
  }

  get length(): number {
    return this.#texts.length
  }

  texts(): string[] {
    return [...this.#texts]
  }

  takeJoined({ afterOthers }: { readonly afterOthers: boolean }): Buffer {
    return Buffer.from((afterOthers ? SEPARATOR : '') + this.#texts.join(SEPARATOR))
  }
}

const SEPARATOR = ',\r\n'
const COMMA = 0x2c
const CARRIAGE_RETURN = 0x0d
const LINE_FEED = 0x0a
