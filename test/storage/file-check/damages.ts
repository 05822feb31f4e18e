/** What can happen to the file of a store, as functions of its bytes. */
import { randomBytes } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { LAST_PAGE_AT, LMDB_PAGE_BYTES as PAGE } from '../../../src/storage/file-check/page-layout.ts'

export type Damage = (whole: Buffer) => Buffer

/** Of these nothing can be used. */
export const FATAL_DAMAGES: Readonly<Record<string, Damage>> = {
  'truncated to nothing': () => Buffer.alloc(0),
  'truncated to a page': (whole) => whole.subarray(0, PAGE),
  'truncated to half': (whole) => whole.subarray(0, PAGE * Math.floor(usedPages(whole) / 2)),
  'without its last page': (whole) => whole.subarray(0, PAGE * (usedPages(whole) - 1)),
  'with a zeroed beginning': (whole) => whole.fill(0, 0, 2 * PAGE),
  'with zeroed pages after the beginning': (whole) => whole.fill(0, 2 * PAGE),
  'of random bytes': (whole) => randomBytes(whole.length),
  'of another kind': () => Buffer.from('Not a database at all.\n'.repeat(5000)),
  'of another version': (whole) => withShort(whole, 28, 3),
  'with pages of another size': (whole) => withShort(whole, 48, 4096),
  'with both meta pages bad': (whole) => scrambled(whole, 0, 2 * PAGE),
}

/** The library gets by with one meta page. */
export const HARMLESS_DAMAGES: Readonly<Record<string, Damage>> = {
  'with its first meta page zeroed': (whole) => whole.fill(0, 0, PAGE),
  'with its second meta page zeroed': (whole) => whole.fill(0, PAGE, 2 * PAGE),
  'with its first meta page random': (whole) => scrambled(whole, 0, PAGE),
  'with its second meta page random': (whole) => scrambled(whole, PAGE, PAGE),
}

/** Every leaf that is no root keeps its header and has nodes that lead anywhere: the library ends the process. */
export function scrambleLeaves(whole: Buffer): Buffer {
  const roots = new Set([88, 136, PAGE + 88, PAGE + 136].map((at) => whole.readUInt32LE(at)))
  for (let page = 2; page < whole.length / PAGE; page++) {
    const at = page * PAGE
    const isLeaf = whole.readUInt32LE(at) === page && whole.readUInt16LE(at + 18) === 2
    if (isLeaf && !roots.has(page)) scrambled(whole, at + 24, PAGE - 24)
  }
  return whole
}

export function damage(path: string, how: Damage): void {
  writeFileSync(path, how(readFileSync(path)))
}

/** The file may be longer: room for commits to come. */
function usedPages(whole: Buffer): number {
  return Math.max(...[0, PAGE].map((meta) => Number(whole.readBigUInt64LE(meta + LAST_PAGE_AT)))) + 1
}

function scrambled(whole: Buffer, at: number, bytes: number): Buffer {
  randomBytes(bytes).copy(whole, at)
  return whole
}

function withShort(whole: Buffer, at: number, value: number): Buffer {
  whole.writeUInt32LE(value, at)
  whole.writeUInt32LE(value, PAGE + at)
  return whole
}
