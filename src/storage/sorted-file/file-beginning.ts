/**
 * The two pages with which every LMDB file begins: they say what the file is and where its tree has its root. They are taken
 * from a file that the library wrote, and only where all is as it is known here; another version may do it otherwise.
 */
import { open } from 'node:fs/promises'
import {
  BOOT_AT,
  BRANCHES_AT,
  DEPTH_AT,
  FREE_TREE_AT,
  LAST_PAGE_AT,
  LEAVES_AT,
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
} from '../file-check/meta-page.ts'
import { LMDB_PAGE_BYTES } from '../file-check/page-layout.ts'
import { FIRST_TRANSACTION } from './lmdb-page.ts'
import type { PageTree } from './page-tree.ts'

export interface FileFacts extends PageTree {
  readonly leaves: number
  readonly overflowPages: number
  readonly rows: number
  readonly lastPage: number
}

/** The beginning of a file; undefined where it is not known for certain what it means. */
export async function readBeginning(path: string): Promise<Buffer | undefined> {
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
 * Both pages tell of the same tree: whichever is believed, it is whole. The second one counts, since it names the later
 * transaction. That must be the very first: from the third on the library takes it for granted that pages became free.
 */
export function completeBeginning(pages: Buffer, facts: FileFacts): void {
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
