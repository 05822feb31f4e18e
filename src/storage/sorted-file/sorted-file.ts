/**
 * An LMDB file written page by page out of rows that come in the order of their keys: a small part of the work of putting
 * them one by one, since no page is looked for, split or written twice. Keys with different first bytes may come in turns.
 */
import { type FileHandle, open } from 'node:fs/promises'
import { META_PAGES } from '../file-check/meta-page.ts'
import { PackedRowsWriter } from '../rows/packed-rows.ts'
import type { PackedRows } from '../rows/row.ts'
import { completeBeginning, readBeginning } from './file-beginning.ts'
import { PageOutput, writeWhole } from './page-output.ts'
import { writeTree } from './page-tree.ts'
import { Strand } from './strand.ts'

export class SortedFile {
  readonly #file: FileHandle
  readonly #beginning: Buffer
  readonly #output: PageOutput
  /** By their first byte. */
  readonly #strands: (Strand | undefined)[] = []

  /** Begins a file like another one, which the library wrote; undefined where that one is of an unknown form. */
  static async begin(path: string, like: string): Promise<SortedFile | undefined> {
    const beginning = await readBeginning(like)
    return beginning && new SortedFile(await open(path, 'w'), beginning)
  }

  private constructor(file: FileHandle, beginning: Buffer) {
    this.#file = file
    this.#beginning = beginning
    this.#output = new PageOutput(file, META_PAGES)
  }

  /** What waits for the disk, and the memory that is kept for more of it. */
  get heldBytes(): number {
    return this.#output.heldBytes
  }

  /**
   * Adds rows until one comes that is not in order, or whose key is not shorter than this; answers how many. What was not
   * taken must be put by the library, into the file as it is when it was ended.
   */
  async add({ length, block, bounds }: PackedRows, keyLimitBytes: number): Promise<number> {
    for (let row = 0; row < length; row++) {
      const keyAt = bounds[3 * row]!
      const valueAt = bounds[3 * row + 1]!
      if (valueAt - keyAt >= keyLimitBytes) return row
      if (!this.#strandOf(block[keyAt]!).add(block, keyAt, valueAt, bounds[3 * row + 2]!)) return row
      if (this.#output.isFull) await this.#output.room()
    }
    return length
  }

  /** Makes a whole file of what was added, and closes it. It need not be on disk. */
  async end(): Promise<void> {
    try {
      await this.#complete()
    } finally {
      await this.close()
    }
  }

  async close(): Promise<void> {
    await this.#file.close()
  }

  async #complete(): Promise<void> {
    const leaves = new PackedRowsWriter()
    let rows = 0
    let overflowPages = 0
    for (const strand of this.#strands) {
      if (!strand) continue
      strand.end()
      for (let leaf = 0; leaf < strand.leaves.length; leaf++) leaves.copy(strand.leaves, leaf)
      rows += strand.rows
      overflowPages += strand.overflowPages
    }
    const tree = await writeTree(leaves, this.#output)
    const lastPage = this.#output.nextPage - 1
    await this.#output.end()
    completeBeginning(this.#beginning, { ...tree, leaves: leaves.length, overflowPages, rows, lastPage })
    await writeWhole(this.#file, this.#beginning, 0)
  }

  #strandOf(firstByte: number): Strand {
    this.#strands[firstByte] ??= new Strand(firstByte, this.#output)
    return this.#strands[firstByte]
  }
}
