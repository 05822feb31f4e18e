/**
 * Writes an LMDB file page by page from rows in key order. That takes a small part of the time of single puts, since no page is
 * searched, split or written twice. Keys with different first bytes may alternate.
 */
import { type FileHandle, open } from 'node:fs/promises'
import {
  BOOT_AT,
  BRANCHES_AT,
  DEPTH_AT,
  FREE_TREE_AT,
  LAST_PAGE_AT,
  LEAVES_AT,
  LMDB_PAGE_BYTES,
  MAGIC,
  MAGIC_AT,
  META_PAGES,
  NO_ROOT,
  OVERFLOW_AT,
  ROOT_AT,
  ROW_TREE_AT,
  ROWS_AT,
  TRANSACTION_AT,
  VERSION,
  VERSION_AT,
} from '../file-check/page-layout.ts'
import { PackedRowsWriter } from '../rows/packed-rows.ts'
import type { PackedRows } from '../store.ts'
import { FIRST_TRANSACTION } from './lmdb-page.ts'
import { PageOutput, writeWhole } from './page-output.ts'
import { type PageTree, Strand, writeTree } from './page-tree.ts'

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

/** What the meta pages say of the file. */
interface FileFacts extends PageTree {
  readonly leaves: number
  readonly overflowPages: number
  readonly rows: number
  readonly lastPage: number
}

/** The beginning of a file; undefined where it is not known for certain what it means. */
async function readBeginning(path: string): Promise<Buffer | undefined> {
  await using file = await open(path)
  const pages = Buffer.alloc(META_PAGES * LMDB_PAGE_BYTES)
  const { bytesRead } = await file.read(pages, 0, pages.length, 0)
  if (bytesRead < pages.length) return undefined
  return isKnown(pages, 0) && isKnown(pages, LMDB_PAGE_BYTES) ? pages : undefined
}

function isKnown(pages: Buffer, at: number): boolean {
  return (
    pages.readUInt32LE(at + MAGIC_AT) === MAGIC &&
    pages.readUInt32LE(at + VERSION_AT) === VERSION &&
    pages.readUInt32LE(at + FREE_TREE_AT) === LMDB_PAGE_BYTES
  )
}

/**
 * Both pages describe the same tree: whichever is believed, it is whole. The second one counts, since it names the later
 * transaction. That must be the very first: from the third on the library takes it for granted that pages became free.
 */
function completeBeginning(pages: Buffer, facts: FileFacts): void {
  describe(pages.subarray(0, LMDB_PAGE_BYTES), facts, FIRST_TRANSACTION - 1)
  describe(pages.subarray(LMDB_PAGE_BYTES), facts, FIRST_TRANSACTION)
}

function describe(page: Buffer, facts: FileFacts, transaction: number): void {
  const { depth, branches, leaves, overflowPages, rows, root, lastPage } = facts
  const put = (at: number, number: number) => page.writeBigUInt64LE(BigInt(number), at)
  // No page is free.
  page.fill(0, FREE_TREE_AT + DEPTH_AT, FREE_TREE_AT + ROOT_AT)
  page.writeBigUInt64LE(NO_ROOT, FREE_TREE_AT + ROOT_AT)
  page.writeUInt16LE(depth, ROW_TREE_AT + DEPTH_AT)
  put(ROW_TREE_AT + BRANCHES_AT, branches)
  put(ROW_TREE_AT + LEAVES_AT, leaves)
  put(ROW_TREE_AT + OVERFLOW_AT, overflowPages)
  put(ROW_TREE_AT + ROWS_AT, rows)
  page.writeBigUInt64LE(root === undefined ? NO_ROOT : BigInt(root), ROW_TREE_AT + ROOT_AT)
  put(LAST_PAGE_AT, lastPage)
  put(TRANSACTION_AT, transaction)
  put(BOOT_AT, 0)
}
