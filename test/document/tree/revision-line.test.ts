import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { HashList, NO_PARENT, type StoredBody } from '../../../src/document/tree/branch.ts'
import { RevisionLine } from '../../../src/document/tree/revision-line.ts'
import { RevisionTree } from '../../../src/document/tree/revision-tree.ts'
import { decodeTree, encodeTree } from '../../../src/document/tree/tree-codec.ts'
import { droppedBodies, stem } from '../../../src/document/tree/tree-pruning.ts'
import { edges, hexHash } from '../forest.ts'

/** Runs without bodies among them; the newest has one. */
const arbitraryBodies = fc
  .tuple(fc.array(fc.oneof(fc.constant(0), fc.integer({ min: -(2 ** 40), max: 2 ** 40 })), { maxLength: 40 }), fc.nat())
  .map(([older, newest]) => [...older, newest + 1])
const arbitraryStart = fc.integer({ min: 1, max: 2 ** 40 })

describe('a line of revisions', () => {
  it('is what the tree of its branch is', () => {
    fc.assert(
      fc.property(arbitraryStart, arbitraryBodies, (start, bodies) => {
        const line = lineOf(start, bodies)
        const tree = treeOf(start, bodies)
        expect(edges(new RevisionTree(line))).toEqual(edges(tree))
        expect(line).toMatchObject({ start, count: bodies.length, hasInnerBodies: tree.hasInnerBodies() })
        expect(line.bodies()).toEqual(bodies)
        expect(encodeTree(tree)).toEqual(line.stored)
        expect(edges(decodeTree(line.stored))).toEqual(edges(tree))
        for (const index of bodies.keys()) {
          expect(new RevisionTree(line).locate(start + index, hexHash(index))).toEqual({ branch: 0, index })
          expect(new RevisionTree(line).locate(start + index, hexHash(index + 1))).toBeUndefined()
        }
      }),
    )
  })

  it('grows as its branch does', () => {
    fc.assert(
      fc.property(arbitraryStart, arbitraryBodies, (start, bodies) => {
        const [first = 0, ...others] = bodies.filter((body) => body !== 0)
        const root = new RevisionTree(lineOf(start, [first]))
        const single = RevisionLine.single(root.bestLeaf().revision, first)
        const grown = others.reduce(
          (line, body, i) => line.extended(hexHash(i + 1), body),
          single ?? lineOf(start, [first]),
        )
        expect(grown.stored).toEqual(lineOf(start, [first, ...others]).stored)
        expect(grown).toMatchObject({ count: 1 + others.length, hasInnerBodies: others.length > 0 })
      }),
    )
  })

  it('is cut as its branch is', () => {
    fc.assert(
      fc.property(arbitraryStart, arbitraryBodies, fc.integer({ min: 1, max: 45 }), (start, bodies, limit) => {
        const { line, dropped } = lineOf(start, bodies).cutTo(limit)
        const tree = treeOf(start, bodies)
        const cut = stem(tree, limit)
        expect(edges(new RevisionTree(line))).toEqual(edges(cut))
        expect(dropped).toEqual(droppedBodies(tree, cut))
      }),
    )
  })

  it('does not exist where a hash is not hexadecimal', () => {
    expect(RevisionLine.of(1, HashList.of(['other', hexHash(1)]), [1, 2])).toBeUndefined()
  })
})

function lineOf(start: number, bodies: readonly StoredBody[]): RevisionLine {
  const line = RevisionLine.of(start, HashList.of(bodies.map((_, index) => hexHash(index))), bodies)
  if (!line) throw new Error('The hashes are hexadecimal.')
  return line
}

/** Of branches, as trees are that grew in other ways. */
function treeOf(start: number, bodies: readonly StoredBody[]): RevisionTree {
  const hashes = HashList.of(bodies.map((_, index) => hexHash(index)))
  return new RevisionTree([{ parent: NO_PARENT, start, hashes, bodies }])
}
