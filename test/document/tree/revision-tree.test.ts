import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { winner } from '../../../src/document/revisions/winner.ts'
import { extendLeaf, RevisionTree } from '../../../src/document/tree/revision-tree.ts'
import { graft } from '../../../src/document/tree/tree-growth.ts'
import { threadMs } from '../../support/processor-time.ts'
import {
  arbitraryHistories,
  arbitraryWholeHistories,
  edges,
  expectSound,
  grow,
  hexHash,
  pathOf,
  revisions,
} from '../forest.ts'

/**
 *   1-a ─ 2-b ─ 3-c ─ 4-d     live
 *            └─ 3-e           deleted
 *   1-x                       live
 */
const forest = grow([
  { path: pathOf('1-a 2-b 3-c 4-d'), body: 4 },
  { path: pathOf('1-a 2-b 3-e'), body: -5 },
  { path: pathOf('1-x'), body: 6 },
])

describe('what a tree knows', () => {
  it('finds revisions with their status', () => {
    const [leaf, inner, tombstone] = revisions('4-d', '2-b', '3-e')
    expect(forest.find(leaf!)).toEqual({ revision: '4-d', generation: 4, hash: 'd', status: 'live', body: 4 })
    expect(forest.find(inner!)).toMatchObject({ status: 'missing', body: 0 })
    expect(forest.find(tombstone!)).toMatchObject({ status: 'deleted', body: 5 })
    for (const unknown of revisions('4-c', '5-d', '1-d', '9-z')) expect(forest.find(unknown)).toBeUndefined()
  })

  it('knows leaves', () => {
    expect(revisions('4-d', '3-e', '1-x', '3-c', '1-a', '7-q').map((revision) => forest.isLeaf(revision))).toEqual([
      true,
      true,
      true,
      false,
      false,
      false,
    ])
  })

  it('lists the leaves below a revision', () => {
    const below = (text: string) => forest.leavesBelow(revisions(text)[0]!).map((leaf) => leaf.revision)
    expect(below('1-a').sort()).toEqual(['3-e', '4-d'])
    expect(below('2-b').sort()).toEqual(['3-e', '4-d'])
    expect(below('3-c')).toEqual(['4-d'])
    expect(below('3-e')).toEqual(['3-e'])
    expect(below('1-x')).toEqual(['1-x'])
    expect(below('9-z')).toEqual([])
  })

  it('lists a revision and its ancestors, newest first', () => {
    const ancestry = (text: string) => forest.ancestry(revisions(text)[0]!).map((node) => node.revision)
    expect(ancestry('4-d')).toEqual(['4-d', '3-c', '2-b', '1-a'])
    expect(ancestry('3-e')).toEqual(['3-e', '2-b', '1-a'])
    expect(ancestry('9-z')).toEqual([])
  })

  it('finds the nearest ancestor with a body', () => {
    const tree = grow([
      { path: pathOf('1-a'), body: 1 },
      { path: pathOf('1-a 2-b 3-c'), body: 3 },
    ])
    expect(tree.nearestBody(pathOf('1-a 2-b 3-c 4-d'))?.revision).toBe('3-c')
    expect(tree.nearestBody(pathOf('1-a 2-b 3-x'))?.revision).toBe('1-a')
    expect(tree.nearestBody(pathOf('2-b 3-x 4-y'))?.revision).toBe('1-a')
    expect(tree.nearestBody(pathOf('1-z 2-y'))).toBeUndefined()
    expect(tree.nearestBody(pathOf('3-c'))).toBeUndefined()
  })

  it('lists missing revisions and the leaves they may descend from', () => {
    const missing = forest.missing(revisions('2-b', '4-d', '4-q', '2-y'))
    expect(missing).toEqual(['4-q', '2-y'])
    expect(forest.possibleAncestors(missing).sort()).toEqual(['1-x', '3-e'])
    expect(forest.possibleAncestors(revisions('1-q'))).toEqual([])
  })
})

describe('growing', () => {
  it('extends a leaf on its branch', () => {
    const tree = grow([{ path: pathOf('1-a'), body: 1 }])
    const extended = extendLeaf(tree, { branch: 0, index: 0 }, 'b', 2)
    expect(edges(extended)).toEqual(['1-a > 2-b live 2', 'undefined > 1-a live 1'])
    expect(extended.branches).toHaveLength(1)
    expect(edges(tree)).toEqual(['undefined > 1-a live 1'])
    const hexadecimal = extendLeaf(extended, { branch: 0, index: 1 }, hexHash(5), 3)
    expect(hexadecimal.leaves()).toMatchObject([{ generation: 3, hash: hexHash(5), body: 3 }])
    expect(hexadecimal.ancestry(hexadecimal.leaves()[0]!.revision).map((node) => node.hash)).toEqual([
      hexHash(5),
      'b',
      'a',
    ])
  })

  it('adds unknown ancestors without bodies', () => {
    expect(edges(grow([{ path: pathOf('2-b 3-c'), body: 1 }]))).toEqual([
      '2-b > 3-c live 1',
      'undefined > 2-b missing 0',
    ])
  })

  it('fills in the body of a revision known without one, and overwrites none', () => {
    const tree = grow([{ path: pathOf('1-a 2-b'), body: 1 }])
    const filled = graft(tree, pathOf('1-a'), 2)
    expect(edges(filled)).toEqual(['1-a > 2-b live 1', 'undefined > 1-a live 2'])
    expect(graft(filled, pathOf('1-a'), 3)).toBe(filled)
    expect(graft(filled, pathOf('1-a 2-b'), -3)).toBe(filled)
  })

  it('makes another root of a path that has nothing in common', () => {
    const tree = grow([
      { path: pathOf('1-a 2-b'), body: 1 },
      { path: pathOf('2-c 3-d'), body: 2 },
    ])
    expect(edges(tree)).toHaveLength(4)
    expect(tree.leaves().map((leaf) => leaf.revision)).toEqual(['2-b', '3-d'])
  })

  it('learns older ancestors', () => {
    const tree = grow([
      { path: pathOf('3-c 4-d'), body: 1 },
      { path: pathOf('1-a 2-b 3-c 4-e'), body: 2 },
    ])
    expect(tree.ancestry(revisions('4-d')[0]!).map((node) => node.revision)).toEqual(['4-d', '3-c', '2-b', '1-a'])
    expectSound(tree)
  })

  it('joins two roots when a path has both', () => {
    const tree = grow([
      { path: pathOf('1-a'), body: 1 },
      { path: pathOf('3-c'), body: 3 },
      { path: pathOf('1-a 2-b 3-c 4-d'), body: 4 },
    ])
    expect(tree.branches).toHaveLength(1)
    expect(tree.ancestry(revisions('4-d')[0]!).map((node) => node.body)).toEqual([4, 3, 0, 1])
  })

  it('keeps the known history when a different one arrives', () => {
    const tree = grow([
      { path: pathOf('1-a 2-b'), body: 1 },
      { path: pathOf('1-z 2-b 3-c'), body: 2 },
    ])
    expect(tree.ancestry(revisions('3-c')[0]!).map((node) => node.revision)).toEqual(['3-c', '2-b', '1-a'])
  })

  it('extends a branch of a thousand revisions by copying, not by walking', () => {
    const hashes = Array.from({ length: 1000 }, (_, index) => hexHash(index))
    let tree = graft(undefined, { start: 1000, hashes }, 1)
    const tookMs = threadMs(() => {
      for (let count = 0; count < 200; count++) {
        const { bodies } = tree.branches[0]!
        tree = extendLeaf(tree, { branch: 0, index: bodies.length - 1 }, hexHash(2000 + count), count + 2)
      }
    })
    expect(tookMs).toBeLessThan(200)
    expect(tree.leaves()[0]).toMatchObject({ generation: 1200, body: 201 })
  })

  it('needs a revision', () => {
    expect(() => new RevisionTree([])).toThrow('a document has a revision')
  })
})

describe('laws of merging', () => {
  const shuffled = (arbitrary: typeof arbitraryHistories) =>
    arbitrary.chain((histories) =>
      fc.tuple(
        fc.constant(histories),
        fc.shuffledSubarray(histories, { minLength: histories.length, maxLength: histories.length }),
      ),
    )

  it.each([
    ['whole', arbitraryWholeHistories],
    ['shortened', arbitraryHistories],
  ])('does not depend on the order in which %s histories arrive', (_, arbitrary) => {
    fc.assert(
      fc.property(shuffled(arbitrary), ([histories, otherOrder]) => {
        const tree = grow(histories)
        const other = grow(otherOrder)
        expectSound(tree)
        expectSound(other)
        expect(edges(other)).toEqual(edges(tree))
        expect(winner(other)).toEqual(winner(tree))
      }),
      { numRuns: 500 },
    )
  })

  it('changes nothing when the same histories arrive again', () => {
    fc.assert(
      fc.property(shuffled(arbitraryHistories), ([histories, again]) => {
        const tree = grow(histories)
        for (const { path, body } of again) expect(graft(tree, path, body + Math.sign(body) * 1000)).toBe(tree)
      }),
    )
  })

  it('loses no revision', () => {
    fc.assert(
      fc.property(arbitraryHistories, (histories) => {
        const tree = grow(histories)
        for (const { path } of histories) {
          const all = path.hashes.map((hash, index) => `${path.start - index}-${hash}`)
          expect(tree.ancestry(revisions(all[0]!)[0]!).map((node) => node.revision)).toEqual(
            expect.arrayContaining(all),
          )
        }
      }),
    )
  })
})
