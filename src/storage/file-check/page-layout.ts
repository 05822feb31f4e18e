/**
 * The layout of pages in an LMDB file, and the two meta pages at its beginning: what the file is, where the roots of its
 * trees are, and which transaction wrote it. Numbers have 64 bits, the lowest byte first. Code that reads or writes pages
 * without the library relies on this form, and the meta pages show whether a file has it.
 */

/** The same on every platform: the library's default follows the memory pages of the machine. */
export const LMDB_PAGE_BYTES = 8192

export const PAGE_KIND = { branch: 0x01, leaf: 0x02, overflow: 0x04, meta: 0x08 } as const

/** Number of the page, of the transaction, two bytes of no use here, kind, and two numbers that depend on the kind. */
export const PAGE_HEADER_BYTES = 24
export const KIND_AT = 18
/** In a branch or leaf: where the places of its nodes end, and where the nodes begin, both counted from the header on. */
export const PLACES_END_AT = 20
export const NODES_START_AT = 22
/** In the first page of a value that has pages of its own: how many. */
export const OVERFLOW_PAGES_AT = 20

/** Size of the value or number of the page below, flags, size of the key. */
export const NODE_HEADER_BYTES = 8
export const FLAGS_AT = 4
export const KEY_SIZE_AT = 6
export const PLACE_BYTES = 2

/** Of a node whose value lies elsewhere. */
export const OVERFLOW_FLAG = 0x01
/** Where that is: first page, transaction, number of pages. */
export const OVERFLOW_PLACE_BYTES = 24

/** Every file begins with so many. */
export const META_PAGES = 2

export const MAGIC = 0xbeefc0de
export const VERSION = 2
export const MAGIC_AT = PAGE_HEADER_BYTES
export const VERSION_AT = MAGIC_AT + 4
const MAP_BYTES_AT = MAGIC_AT + 16
/** Two trees follow address and size of the map: that of free pages, which says the size of a page too, and that of the rows. */
export const FREE_TREE_AT = MAGIC_AT + 24
const TREE_BYTES = 48
export const ROW_TREE_AT = FREE_TREE_AT + TREE_BYTES
export const LAST_PAGE_AT = ROW_TREE_AT + TREE_BYTES
export const TRANSACTION_AT = LAST_PAGE_AT + 8
export const BOOT_AT = TRANSACTION_AT + 8
export const META_BYTES = BOOT_AT + 8

/** Within a tree: the size of a page or nothing, flags, depth, and five numbers. */
const TREE_FLAGS_AT = 4
export const DEPTH_AT = 6
export const BRANCHES_AT = 8
export const LEAVES_AT = 16
export const OVERFLOW_AT = 24
export const ROWS_AT = 32
export const ROOT_AT = 40
export const NO_ROOT = 0xffff_ffff_ffff_ffffn

/** Keys of the tree of free pages are numbers. */
const INTEGER_KEYS = 0x08
const ENCRYPTED = 0x2000

/** The library's cursors go no deeper. */
const MOST_LEVELS = 32

/** More than any file system has. */
const MOST_PAGES = 2n ** 44n
const MOST_MAP_BYTES = 2n ** 47n

export interface Tree {
  /** Undefined where the tree is empty. */
  readonly root: number | undefined
  readonly depth: number
}

export interface Meta {
  readonly transaction: bigint
  readonly lastPage: number
  readonly free: Tree
  readonly rows: Tree
}

/** What the meta page says; a sentence where it is not one that the library can have written. */
export function readMeta(page: Buffer, number: number): Meta | string {
  if (page.readBigUInt64LE(0) !== BigInt(number) || page.readUInt16LE(KIND_AT) !== PAGE_KIND.meta)
    return 'It is no meta page.'
  if (page.readUInt32LE(MAGIC_AT) !== MAGIC) return 'It is not of an LMDB file.'
  const version = page.readUInt32LE(VERSION_AT) & 0xffff
  if (version !== VERSION) return `It has the format version ${version} and not ${VERSION}.`
  const pageBytes = page.readUInt32LE(FREE_TREE_AT)
  if (pageBytes !== LMDB_PAGE_BYTES) return `Its pages have ${pageBytes} bytes and not ${LMDB_PAGE_BYTES}.`
  const freeFlags = page.readUInt16LE(FREE_TREE_AT + TREE_FLAGS_AT)
  const rowFlags = page.readUInt16LE(ROW_TREE_AT + TREE_FLAGS_AT)
  const rowPad = page.readUInt32LE(ROW_TREE_AT)
  if (!(freeFlags & INTEGER_KEYS) || freeFlags & ENCRYPTED || rowFlags !== 0 || rowPad !== 0)
    return 'Its flags are unknown.'
  const lastPage = page.readBigUInt64LE(LAST_PAGE_AT)
  if (lastPage < META_PAGES - 1 || lastPage > MOST_PAGES) return 'Its last page is out of bounds.'
  if (page.readBigUInt64LE(MAP_BYTES_AT) > MOST_MAP_BYTES) return 'Its size of the map is out of bounds.'
  const free = readTree(page, FREE_TREE_AT, lastPage)
  const rows = readTree(page, ROW_TREE_AT, lastPage)
  if (!free || !rows) return 'The root of a tree is out of bounds.'
  return { transaction: page.readBigUInt64LE(TRANSACTION_AT), lastPage: Number(lastPage), free, rows }
}

function readTree(page: Buffer, at: number, lastPage: bigint): Tree | undefined {
  const root = page.readBigUInt64LE(at + ROOT_AT)
  const depth = page.readUInt16LE(at + DEPTH_AT)
  if (root === NO_ROOT) return depth === 0 ? { root: undefined, depth } : undefined
  if (root < META_PAGES || root > lastPage || depth < 1 || depth > MOST_LEVELS) return undefined
  return { root: Number(root), depth }
}
