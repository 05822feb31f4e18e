import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { leavesBestFirst, winner } from '../../../src/document/revisions/winner.ts'
import type { RevisionTree } from '../../../src/document/tree/revision-tree.ts'
import { droppedBodies, purge, stem, withLeafBodiesOnly } from '../../../src/document/tree/tree-pruning.ts'
import { arbitraryHistories, arbitraryWholeHistories, edges, expectSound, grow, pathOf, revisions } from '../forest.ts'

describe('stemming', () => {
  it('cuts a branch to its newest revisions', () => {
    const tree = grow([{ path: pathOf('1-a 2-b 3-c'), body: 1 }])
    expect(edges(stem(tree, 2))).toEqual(['2-b > 3-c live 1', 'undefined > 2-b missing 0'])
    expect(stem(tree, 3)).toBe(tree)
  })

  it('keeps what another branch needs, and splits the tree where none does', () => {
    const tree = grow([
      { path: pathOf('1-a 2-b 3-c 4-d 5-e 6-f'), body: 1 },
      { path: pathOf('1-a 2-b 3-x'), body: 2 },
    ])
    expect(edges(stem(tree, 2))).toEqual([
      '2-b > 3-x live 2',
      '5-e > 6-f live 1',
      'undefined > 2-b missing 0',
      'undefined > 5-e missing 0',
    ])
    // The newest four of one and all three of the other: together the whole tree.
    expect(edges(stem(tree, 4))).toEqual(edges(tree))
  })

  it('keeps all leaves, and so the winner', () => {
    fc.assert(
      fc.property(arbitraryHistories, fc.integer({ min: 1, max: 8 }), (histories, limit) => {
        const tree = grow(histories)
        const stemmed = stem(tree, limit)
        expectSound(stemmed)
        expect(leavesBestFirst(stemmed)).toEqual(leavesBestFirst(tree))
        expect(winner(stemmed)).toEqual(winner(tree))
      }),
    )
  })

  it('keeps exactly the revisions that are within the limit of some leaf', () => {
    fc.assert(
      fc.property(arbitraryHistories, fc.integer({ min: 1, max: 8 }), (histories, limit) => {
        const tree = grow(histories)
        const wanted = new Set(
          tree.leaves().flatMap((leaf) =>
            tree
              .ancestry(leaf.revision)
              .slice(0, limit)
              .map((node) => node.revision),
          ),
        )
        expect(revisionsOf(stem(tree, limit))).toEqual([...wanted].sort())
      }),
    )
  })

  it('cuts nothing more the second time', () => {
    fc.assert(
      fc.property(arbitraryHistories, fc.integer({ min: 1, max: 8 }), (histories, limit) => {
        const stemmed = stem(grow(histories), limit)
        expect(edges(stem(stemmed, limit))).toEqual(edges(stemmed))
      }),
    )
  })
})

describe('purging', () => {
  it('removes a leaf with its branch down to the fork', () => {
    const tree = grow([
      { path: pathOf('1-a 2-b 3-c 4-d'), body: 1 },
      { path: pathOf('1-a 2-b 3-x'), body: 2 },
    ])
    const { tree: rest, purged } = purge(tree, revisions('4-d', '3-c', '9-z'))
    expect(purged).toEqual(['4-d'])
    expect(edges(rest!)).toEqual(['1-a > 2-b missing 0', '2-b > 3-x live 2', 'undefined > 1-a missing 0'])
    expectSound(rest!)
  })

  it('leaves nothing when the last branch is purged', () => {
    const tree = grow([{ path: pathOf('1-a 2-b'), body: 1 }])
    expect(purge(tree, revisions('2-b', '2-b'))).toEqual({ tree: undefined, purged: ['2-b'] })
    expect(purge(tree, revisions('1-a'))).toEqual({ tree, purged: [] })
  })

  it('leaves what the other leaves descend from, as it was', () => {
    const arbitraryPurge = arbitraryHistories.chain((histories) => {
      const leaves = grow(histories).leaves()
      return fc.tuple(fc.constant(histories), fc.subarray(leaves.map((leaf) => leaf.revision)))
    })
    fc.assert(
      fc.property(arbitraryPurge, ([histories, chosen]) => {
        const tree = grow(histories)
        const { tree: rest, purged } = purge(tree, chosen)
        const others = tree.leaves().filter((leaf) => !chosen.includes(leaf.revision))
        expect([...purged].sort()).toEqual([...chosen].sort())
        expect(rest?.leaves().length ?? 0).toBe(others.length)
        if (rest !== undefined) expectSound(rest)
        for (const leaf of others) expect(rest?.ancestry(leaf.revision)).toEqual(tree.ancestry(leaf.revision))
      }),
      { numRuns: 500 },
    )
  })

  it('is undone by replicating again', () => {
    fc.assert(
      fc.property(arbitraryWholeHistories, (histories) => {
        const tree = grow(histories)
        const { tree: rest } = purge(tree, [winner(tree).revision])
        expect(rest && edges(rest)).not.toEqual(edges(tree))
        const again = grow(histories, rest)
        expect(edges(again)).toEqual(edges(tree))
      }),
    )
  })
})

describe('compaction', () => {
  it('drops the bodies of inner revisions', () => {
    const tree = grow([
      { path: pathOf('1-a'), body: 1 },
      { path: pathOf('1-a 2-b'), body: 2 },
      { path: pathOf('1-a 2-c'), body: -3 },
    ])
    const compacted = withLeafBodiesOnly(tree)
    expect(edges(compacted)).toEqual(['1-a > 2-b live 2', '1-a > 2-c deleted 3', 'undefined > 1-a missing 0'])
    expect(droppedBodies(tree, compacted)).toEqual([1])
    expect(withLeafBodiesOnly(compacted)).toBe(compacted)
    expect(droppedBodies(tree, undefined).sort()).toEqual([1, 2, 3])
  })
})

function revisionsOf(tree: RevisionTree): string[] {
  return [
    ...new Set(tree.leaves().flatMap((leaf) => tree.ancestry(leaf.revision).map((node) => node.revision as string))),
  ].sort()
}
