/**
 * The stored form of a revision tree. A revision takes its 16 bytes and the number of its body; a run of revisions without
 * bodies takes one number. Reading it copies no hash.
 *
 *   tree    a line, as `revision-line.ts` has it, or format byte, number of branches, branches
 *   branch  parent + 1, start, count, bodies, hashes of 16 bytes, number of other hashes, those: index, size, text
 */
import { NUMBER_BYTES } from '../../encoding/bytes/short-bytes.ts'
import { HASH_BYTES } from '../ids.ts'
import { type Branch, HashList, leafGeneration, NO_PARENT } from './branch.ts'
import { LINE_FORMAT, RevisionLine } from './revision-line.ts'
import { RevisionTree } from './revision-tree.ts'
import { damagedTree, StoredTreeReader, StoredTreeWriter } from './stored-tree-bytes.ts'

export function encodeTree(tree: RevisionTree): Buffer {
  const { line } = tree
  if (line) return line.stored
  const writer = new StoredTreeWriter(
    tree.branches.reduce((size, branch) => size + maximalSize(branch), 1 + NUMBER_BYTES),
  )
  writer.byte(FORMAT)
  writer.number(tree.branches.length)
  for (const branch of tree.branches) writeBranch(writer, branch)
  return writer.written()
}

/** Throws when the bytes are not a tree: damaged, or written by a later release. */
export function decodeTree(bytes: Buffer): RevisionTree {
  if (bytes[0] === LINE_FORMAT) return new RevisionTree(RevisionLine.read(bytes))
  const reader = new StoredTreeReader(bytes)
  if (reader.byte() !== FORMAT) throw new Error('The revision tree has an unknown format.')
  const count = reader.number()
  const branches: Branch[] = []
  for (let index = 0; index < count; index++) branches.push(readBranch(reader))
  reader.end()
  if (branches.length === 0 || !branches.every((branch) => isRooted(branch, branches))) throw damagedTree()
  return new RevisionTree(branches)
}

const FORMAT = 1

function maximalSize(branch: Branch): number {
  let others = 0
  for (const hash of branch.hashes.others.values()) others += 2 * NUMBER_BYTES + 3 * hash.length
  return 4 * NUMBER_BYTES + branch.bodies.length * (HASH_BYTES + NUMBER_BYTES) + others
}

function writeBranch(writer: StoredTreeWriter, branch: Branch): void {
  writer.number(branch.parent + 1)
  writer.number(branch.start)
  writer.number(branch.bodies.length)
  writer.bodies(branch.bodies)
  writer.bytes(branch.hashes.packed)
  writer.number(branch.hashes.others.size)
  for (const [index, hash] of branch.hashes.others) {
    const text = Buffer.from(hash, 'utf8')
    writer.number(index)
    writer.number(text.length)
    writer.bytes(text)
  }
}

/** A fork must be inside its parent and before its end: then no branch is its own ancestor. */
function isRooted(branch: Branch, branches: readonly Branch[]): boolean {
  if (branch.parent === NO_PARENT) return true
  const parent = branches[branch.parent]
  return parent !== undefined && branch.start > parent.start && branch.start <= leafGeneration(parent)
}

function readBranch(reader: StoredTreeReader): Branch {
  const parent = reader.number() - 1
  const start = reader.number()
  const count = reader.number()
  if (start === 0 || count === 0 || count * HASH_BYTES > reader.left()) throw damagedTree()
  const bodies = reader.bodies(count)
  const packed = reader.bytes(count * HASH_BYTES)
  const others = new Map<number, string>()
  for (let left = reader.number(); left > 0; left--) {
    const index = reader.number()
    if (index >= count) throw damagedTree()
    others.set(index, reader.bytes(reader.number()).toString('utf8'))
  }
  return { parent, start, hashes: new HashList(packed, others), bodies }
}
