/**
 * Pages in the order of whole keys, also where keys are longer than an engine can order. Rows that it keeps by a digest
 * lie side by side, so they are read together, put in order and given out as one page, however few were asked for.
 */
import { ORDERED_KEY_BYTES, rangeAfter } from '../rows/long-key.ts'
import type { KeyRange, Page, PageLimits, Snapshot } from '../store.ts'
import { BlockPage } from './page-builder.ts'

/** Like `Snapshot.page`, whose rows it gives; a page may have more of them than the limits say. */
export async function orderedPage(snapshot: Snapshot, range: KeyRange, limits: PageLimits = {}): Promise<Page> {
  const page = await snapshot.page(range, limits)
  const ordered = leadingRows(page, isOrdered)
  if (ordered === page.length) return page
  if (ordered === 0) return readTogether(snapshot, range, page, limits)
  // Whoever gets the page may write into its block.
  const last = Buffer.from(page.key(ordered - 1))
  return new BlockPage(ordered, page.block, page.bounds, rangeAfter(range, last))
}

/** All keys that an engine cannot tell from a long one by their order: from the first up to the second. */
export function keysAlike(longKey: Buffer): { readonly from: Buffer; readonly to: Buffer } {
  const from = longKey.subarray(0, ORDERED_KEY_BYTES)
  return { from, to: afterAllThatBeginWith(from) }
}

/** More than this is put in order by parts. */
const TOGETHER_BYTES = 16 * 1024 * 1024

/** `first` begins with a row of a long key: all that are like it, and no others. */
async function readTogether(snapshot: Snapshot, range: KeyRange, first: Page, limits: PageLimits): Promise<Page> {
  const key = first.key(0)
  const rows: LongRow[] = []
  let last = key
  let bytes = 0
  for (let page = first; ; page = await snapshot.page(page.next, limits)) {
    const alike = leadingRows(page, (candidate, row) => isAlike(candidate, row, key))
    for (let row = 0; row < alike; row++) rows.push({ key: page.key(row), value: page.value(row) })
    if (alike > 0) last = page.key(alike - 1)
    bytes += page.block.length
    if (alike < page.length) return inOrder(rows, range, rangeAfter(range, last))
    if (!page.next || bytes >= TOGETHER_BYTES) return inOrder(rows, range, page.next)
  }
}

interface LongRow {
  readonly key: Buffer
  readonly value: Buffer
}

function inOrder(rows: LongRow[], { reverse = false }: KeyRange, next: KeyRange | undefined): Page {
  rows.sort((a, b) => (reverse ? b.key.compare(a.key) : a.key.compare(b.key)))
  const bounds = new Uint32Array(3 * rows.length)
  let end = 0
  for (const [i, { key, value }] of rows.entries()) {
    bounds[3 * i] = end
    bounds[3 * i + 1] = end + key.length
    end += key.length + value.length
    bounds[3 * i + 2] = end
  }
  const block = Buffer.concat(rows.flatMap(({ key, value }) => [key, value]))
  return new BlockPage(rows.length, block, bounds, next)
}

/** How many rows at the beginning of a page are as asked for. */
function leadingRows(page: Page, isSuch: (page: Page, row: number) => boolean): number {
  let row = 0
  while (row < page.length && isSuch(page, row)) row++
  return row
}

/** Asked of every row that is read: no slice is made for it. */
function isOrdered({ bounds }: Page, row: number): boolean {
  return bounds[3 * row + 1]! - bounds[3 * row]! <= ORDERED_KEY_BYTES
}

function isAlike(page: Page, row: number, longKey: Buffer): boolean {
  if (isOrdered(page, row)) return false
  return page.key(row).compare(longKey, 0, ORDERED_KEY_BYTES, 0, ORDERED_KEY_BYTES) === 0
}

function afterAllThatBeginWith(prefix: Buffer): Buffer {
  const last = prefix.findLastIndex((byte) => byte < 0xff)
  const after = Buffer.from(prefix.subarray(0, last + 1))
  after[last] = after[last]! + 1
  return after
}
