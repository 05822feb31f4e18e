/**
 * What a commit may add to the file at most: every page that it touches is written to another place, and none of the free
 * ones may be fit for use.
 */
import { LMDB_PAGE_BYTES, PAGE_HEADER_BYTES } from '../file-check/page-layout.ts'

export interface WriteEstimate {
  /** Where the last page ends that was ever used. */
  readonly endBytes: number
  /** What the rows themselves take. */
  readonly rowBytes: number
  /** With every other page that may have to be written. */
  readonly mostBytes: number
}

/** The tree as it is before the commit. */
export interface TreeShape {
  readonly depth: number
  readonly branchPages: number
  readonly leafPages: number
  /** All pages of the file, the free ones too. */
  readonly filePages: number
}

/** A row of half a page or more lies on pages of its own. */
const LARGE_ROW_BYTES = LMDB_PAGE_BYTES / 2 - 64

/** Header and place of a row on its page, rounded up. */
const ROW_OVERHEAD_BYTES = 16

/** Pages that grow one row at a time are left half full. */
const FILL = 1 / 2

/** A branch has three children at least: keys are shorter than a quarter of a page. */
const LEAST_CHILDREN = 3

/** Numbers of free pages that a page holds, rounded down. */
const FREE_NUMBERS = 1000

/** Pages of the list of free pages that are written anew in any case. */
const FREE_LIST_PAGES = 3

/** Counts what a commit writes. */
export class WriteCounter {
  #rows = 0
  #smallBytes = 0
  #largePages = 0

  put(keyBytes: number, valueBytes: number): void {
    this.#rows++
    const bytes = keyBytes + valueBytes + ROW_OVERHEAD_BYTES
    if (bytes < LARGE_ROW_BYTES) this.#smallBytes += bytes
    else {
      this.#smallBytes += keyBytes + ROW_OVERHEAD_BYTES
      this.#largePages += Math.ceil((valueBytes + PAGE_HEADER_BYTES) / LMDB_PAGE_BYTES)
    }
  }

  remove(): void {
    this.#rows++
  }

  estimate({ depth, branchPages, leafPages, filePages }: TreeShape): WriteEstimate {
    const touchedLeaves = Math.min(this.#rows, Math.max(1, leafPages))
    const touchedBranches = Math.min(touchedLeaves * Math.max(0, depth - 1), branchPages)
    const filledLeaves = Math.ceil(this.#smallBytes / (LMDB_PAGE_BYTES * FILL))
    // Each touched leaf may be full.
    const newLeaves = Math.min(this.#rows, touchedLeaves + filledLeaves)
    const newBranches = Math.ceil(newLeaves / LEAST_CHILDREN) + 1
    const treePages = touchedLeaves + touchedBranches + newLeaves + newBranches
    const freePages = FREE_LIST_PAGES + Math.ceil((filePages + treePages + this.#largePages) / FREE_NUMBERS)
    const rowPages = filledLeaves + this.#largePages
    return {
      endBytes: filePages * LMDB_PAGE_BYTES,
      rowBytes: rowPages * LMDB_PAGE_BYTES,
      mostBytes: (treePages + this.#largePages + freePages) * LMDB_PAGE_BYTES,
    }
  }
}
