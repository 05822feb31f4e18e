/**
 * Walks the pages that the trees of an LMDB file lead to, without mapping the file, and reports the first one on which the
 * library would read beyond the page or the file, and end the process.
 */
import { readSync } from 'node:fs'
import {
  FLAGS_AT,
  KEY_SIZE_AT,
  KIND_AT,
  LMDB_PAGE_BYTES,
  META_PAGES,
  type Meta,
  NODE_HEADER_BYTES,
  NODES_START_AT,
  OVERFLOW_FLAG,
  OVERFLOW_PAGES_AT,
  OVERFLOW_PLACE_BYTES,
  PAGE_HEADER_BYTES,
  PAGE_KIND,
  PLACE_BYTES,
  PLACES_END_AT,
  type Tree,
} from './page-layout.ts'

/** The others are of no account once a page is on disk. */
const KINDS = 0x0fff

const CONTENT_BYTES = LMDB_PAGE_BYTES - PAGE_HEADER_BYTES

/** Which pages there are. */
interface Extent {
  readonly file: number
  /** How many pages the file has, and how many the trees may lead to. */
  readonly pages: number
}

/** A page whose tree has so many levels from here on. */
interface Visit {
  readonly page: number
  readonly depth: number
  /** Of a branch. The library ends the process where a branch of rows has less than two. */
  readonly leastNodes: number
}

const LEAST_NODES_OF_ROWS = 2
const LEAST_NODES_OF_FREE = 1

/** What is wrong with the roots of the trees; undefined where nothing is. */
export function rootProblem(file: number, fileBytes: number, meta: Meta): string | undefined {
  const extent = extentOf(file, fileBytes, meta)
  const bytes = Buffer.allocUnsafe(LMDB_PAGE_BYTES)
  for (const visit of rootsOf(meta)) {
    const problem = problemOf(extent, visit, bytes, [])
    if (problem) return problem
  }
  return undefined
}

/** The fault of the first bad page; undefined where there is none. Yields after each page, so that the caller can do other work. */
export function* walkPages(file: number, fileBytes: number, meta: Meta): Generator<void, string | undefined> {
  const extent = extentOf(file, fileBytes, meta)
  const bytes = Buffer.allocUnsafe(LMDB_PAGE_BYTES)
  for (const root of rootsOf(meta)) {
    const visits = [root]
    // Pages of a tree are reached once. More visits than pages: it goes in circles.
    let left = extent.pages
    for (let visit = visits.pop(); visit; visit = visits.pop()) {
      const problem = left-- > 0 ? problemOf(extent, visit, bytes, visits) : 'A page is part of the tree twice.'
      if (problem) return problem
      yield
    }
  }
  return undefined
}

function extentOf(file: number, fileBytes: number, { lastPage }: Meta): Extent {
  return { file, pages: Math.min(lastPage + 1, Math.floor(fileBytes / LMDB_PAGE_BYTES)) }
}

function rootsOf({ free, rows }: Meta): Visit[] {
  return [...rootOf(free, LEAST_NODES_OF_FREE), ...rootOf(rows, LEAST_NODES_OF_ROWS)]
}

function rootOf({ root, depth }: Tree, leastNodes: number): Visit[] {
  return root === undefined ? [] : [{ page: root, depth, leastNodes }]
}

/** Adds the pages below to the visits. */
function problemOf(extent: Extent, visit: Visit, bytes: Buffer, visits: Visit[]): string | undefined {
  const { page, depth, leastNodes } = visit
  const unreadable = readPage(extent, page, bytes)
  if (unreadable) return unreadable
  const kind = bytes.readUInt16LE(KIND_AT) & KINDS
  if (kind !== (depth > 1 ? PAGE_KIND.branch : PAGE_KIND.leaf)) return `The page ${page} is of the wrong kind.`
  const placesEnd = bytes.readUInt16LE(PLACES_END_AT)
  const nodesStart = bytes.readUInt16LE(NODES_START_AT)
  if (placesEnd % PLACE_BYTES !== 0 || placesEnd > nodesStart || nodesStart > CONTENT_BYTES) {
    return `The header of the page ${page} is damaged.`
  }
  const nodes = placesEnd / PLACE_BYTES
  if (depth > 1 && nodes < leastNodes) return `The page ${page} has too few nodes.`
  for (let node = 0; node < nodes; node++) {
    const place = bytes.readUInt16LE(PAGE_HEADER_BYTES + PLACE_BYTES * node)
    const isSound =
      place >= nodesStart &&
      place + NODE_HEADER_BYTES <= CONTENT_BYTES &&
      isSoundNode(extent, bytes, PAGE_HEADER_BYTES + place, visit, visits)
    if (!isSound) return `The node ${node} of the page ${page} is damaged.`
  }
  return undefined
}

function isSoundNode(extent: Extent, bytes: Buffer, at: number, of: Visit, visits: Visit[]): boolean {
  const flags = bytes.readUInt16LE(at + FLAGS_AT)
  const keyEnd = at + NODE_HEADER_BYTES + bytes.readUInt16LE(at + KEY_SIZE_AT)
  if (of.depth > 1) {
    // The highest part of the number lies where leaves have their flags.
    const below = bytes.readUInt32LE(at) + flags * 2 ** 32
    visits.push({ ...of, page: below, depth: of.depth - 1 })
    return keyEnd <= LMDB_PAGE_BYTES && below >= META_PAGES && below < extent.pages
  }
  if (flags === 0) return keyEnd + bytes.readUInt32LE(at) <= LMDB_PAGE_BYTES
  if (flags !== OVERFLOW_FLAG || keyEnd + OVERFLOW_PLACE_BYTES > LMDB_PAGE_BYTES) return false
  return isSoundOverflow(extent, bytes.readBigUInt64LE(keyEnd), bytes.readUInt32LE(at))
}

function isSoundOverflow(extent: Extent, first: bigint, valueBytes: number): boolean {
  const pages = Math.ceil((PAGE_HEADER_BYTES + valueBytes) / LMDB_PAGE_BYTES)
  if (first < META_PAGES || first + BigInt(pages) > extent.pages) return false
  const header = Buffer.allocUnsafe(PAGE_HEADER_BYTES)
  if (readPage(extent, Number(first), header)) return false
  return (
    (header.readUInt16LE(KIND_AT) & KINDS) === PAGE_KIND.overflow && header.readUInt32LE(OVERFLOW_PAGES_AT) >= pages
  )
}

/** Reads as much of the page as the buffer holds. */
function readPage({ file, pages }: Extent, page: number, bytes: Buffer): string | undefined {
  if (page >= pages) return `The page ${page} lies beyond the end of the file.`
  if (readSync(file, bytes, 0, bytes.length, page * LMDB_PAGE_BYTES) < bytes.length) {
    return `The page ${page} cannot be read.`
  }
  return bytes.readBigUInt64LE(0) === BigInt(page) ? undefined : `The page ${page} says that it is another one.`
}
