/** The branches above the leaves of a file, from the lowest level to the root, which is the last one written. */
import { LMDB_PAGE_BYTES, PAGE_HEADER_BYTES, PAGE_KIND, PLACE_BYTES } from '../file-check/page-layout.ts'
import { PackedRowsWriter, packedKey } from '../rows/packed-rows.ts'
import type { PackedRows } from '../rows/row.ts'
import { FilledPage, nodeBytes } from './lmdb-page.ts'
import type { PageOutput } from './page-output.ts'

export interface PageTree {
  /** Undefined where there is no page. */
  readonly root: number | undefined
  readonly depth: number
  readonly branches: number
}

const NUMBER_BYTES = 6

/** Notes a page of the level below: what sorts not before this key and before the next is in it. */
export function addChild(children: PackedRowsWriter, separator: Uint8Array, page: number): void {
  children.reserve(separator.length + NUMBER_BYTES)
  const { block, end } = children
  block.set(separator, end)
  const valueAt = end + separator.length
  children.close(valueAt, block.writeUIntLE(page, valueAt, NUMBER_BYTES))
}

export async function writeTree(leaves: PackedRows, output: PageOutput): Promise<PageTree> {
  if (leaves.length === 0) return { root: undefined, depth: 0, branches: 0 }
  let level = leaves
  let depth = 1
  let branches = 0
  for (; level.length > 1; depth++) {
    level = await writeBranches(level, output)
    branches += level.length
  }
  return { root: pageOf(level, 0), depth, branches }
}

async function writeBranches(children: PackedRows, output: PageOutput): Promise<PackedRows> {
  const written = new PackedRowsWriter()
  const page = new FilledPage(PAGE_KIND.branch)
  const ends = branchEnds(children)
  let child = 0
  for (const end of ends) {
    const first = child
    for (; child < end; child++)
      addNode(page, pageOf(children, child), child === first ? NO_KEY : packedKey(children, child))
    const number = output.nextPage
    page.close(number)
    output.add(page.bytes)
    addChild(written, packedKey(children, first), number)
    await output.room()
  }
  return written
}

const NO_KEY = Buffer.alloc(0)

function addNode(page: FilledPage, child: number, key: Buffer): void {
  // The highest part of the number lies where leaves have their flags.
  const at = page.add(nodeBytes(key.length), child, Math.floor(child / 2 ** 32), key.length)
  page.bytes.set(key, at)
}

/** With which child each branch ends. */
function branchEnds(children: PackedRows): number[] {
  const ends: number[] = []
  let first = 0
  let room = 0
  for (let child = 0; child < children.length; child++) {
    // The first child of a branch needs no key.
    const keyBytes = child === first ? 0 : children.bounds[3 * child + 1]! - children.bounds[3 * child]!
    const bytes = nodeBytes(keyBytes) + PLACE_BYTES
    if (child > first && bytes > room) {
      ends.push(child)
      first = child
    }
    if (child === first) room = LMDB_PAGE_BYTES - PAGE_HEADER_BYTES - nodeBytes(0) - PLACE_BYTES
    else room -= bytes
  }
  // A branch has two children at least: the library relies on it.
  if (first > 0 && first === children.length - 1) ends[ends.length - 1]! -= 1
  ends.push(children.length)
  return ends
}

function pageOf({ block, bounds }: PackedRows, child: number): number {
  return block.readUIntLE(bounds[3 * child + 1]!, NUMBER_BYTES)
}
