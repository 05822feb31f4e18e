import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { RevisionId, RevisionPath } from '../../src/document/ids.ts'
import { leavesBestFirst, winner } from '../../src/document/revisions/winner.ts'
import { extendLeaf, RevisionTree } from '../../src/document/tree/revision-tree.ts'
import { graft } from '../../src/document/tree/tree-growth.ts'
import { purge, stem } from '../../src/document/tree/tree-pruning.ts'
import { edges, expectSound, hexHash } from './forest.ts'

/** What happens to a tree with many branches; numbers are taken modulo what there is. */
const arbitraryGrowth = fc.array(
  fc.record({
    kind: fc.constantFrom('root', 'fork', 'longer', 'deeper'),
    at: fc.nat({ max: 1000 }),
    deleted: fc.boolean(),
  }),
  { minLength: 30, maxLength: 80 },
)

type Growth = typeof arbitraryGrowth extends fc.Arbitrary<infer T> ? T : never

/** Each tree that comes to be, with those before it. */
function* trees(growth: Growth): Generator<RevisionTree> {
  let tree = graft(undefined, { start: 30, hashes: [hexHash(0)] }, 1)
  for (const [i, { kind, at, deleted }] of growth.entries()) {
    const body = deleted ? -(i + 2) : i + 2
    const number = at % tree.branches.length
    const leaf = tree.leafOf(number)
    if (kind === 'root') tree = graft(tree, { start: 30, hashes: [hexHash(i + 1)] }, body)
    else if (kind === 'longer') {
      const place = { branch: number, index: tree.branches[number]!.bodies.length - 1 }
      tree = extendLeaf(tree, place, hexHash(i + 1), body)
    } else tree = graft(tree, kind === 'fork' ? forkAt(tree, at, i) : historyOf(tree, leaf.revision, i), body)
    yield tree
  }
}

function revisions({ branches }: RevisionTree): RevisionId[] {
  const tree = new RevisionTree(branches)
  return branches.flatMap(({ bodies }, branch) => bodies.map((_, index) => tree.nodeAt({ branch, index }).revision))
}

function forkAt(tree: RevisionTree, at: number, i: number): RevisionPath {
  const known = revisions(tree)
  const [generation = '', hash = ''] = known[at % known.length]!.split('-')
  return { start: Number(generation) + 1, hashes: [hexHash(i + 1), hash] }
}

/** Reaches further back than the tree does. */
function historyOf(tree: RevisionTree, revision: RevisionId, i: number): RevisionPath {
  const ancestry = tree.ancestry(revision)
  const older = ancestry.at(-1)!.generation > 1 ? [hexHash(1000 + (i % 3))] : []
  return { start: ancestry[0]!.generation, hashes: [...ancestry.map(({ hash }) => hash), ...older] }
}

describe('a tree that grew to many branches', () => {
  it('is equal to one that is built from them at once', () => {
    fc.assert(
      fc.property(arbitraryGrowth, (growth) => {
        for (const tree of trees(growth)) {
          const fresh = new RevisionTree(tree.branches)
          expect(winner(tree)).toEqual(leavesBestFirst(fresh)[0])
          expect(tree.longestLine()).toBe(fresh.longestLine())
          for (const revision of revisions(fresh).slice(0, 5)) expect(tree.find(revision)).toEqual(fresh.find(revision))
          expect(tree.locate(30, hexHash(9999))).toBeUndefined()
        }
      }),
      { numRuns: 30 },
    )
  })

  it('leaves the trees before it as they were', () => {
    fc.assert(
      fc.property(arbitraryGrowth, (growth) => {
        const all = [...trees(growth)]
        const before = all.map((tree) => edges(new RevisionTree(tree.branches)))
        for (const tree of all) winner(tree)
        expect(all.map(edges)).toEqual(before)
        for (const tree of all.slice(-5))
          for (const revision of revisions(tree)) expect(tree.find(revision)).toBeDefined()
      }),
      { numRuns: 20 },
    )
  })

  it('loses the same when several leaves are purged at once as when they are one by one', () => {
    fc.assert(
      fc.property(arbitraryGrowth, fc.infiniteStream(fc.boolean()), (growth, choice) => {
        const tree = [...trees(growth)].at(-1)!
        const chosen = tree
          .leaves()
          .map(({ revision }) => revision)
          .filter(() => choice.next().value)
        let slowly: RevisionTree | undefined = tree
        for (const revision of chosen) slowly = slowly && purge(slowly, [revision]).tree
        const { tree: rest, purged } = purge(tree, chosen)
        expect(purged).toEqual(chosen)
        expect(rest && edges(rest)).toEqual(slowly && edges(slowly))
        if (rest) expectSound(rest)
      }),
      { numRuns: 50 },
    )
  })

  it('adds an unknown path only up to the limit', () => {
    const path = { start: 9, hashes: [1, 2, 3, 4].map(hexHash) }
    for (const tree of [undefined, graft(undefined, { start: 5, hashes: [hexHash(5)] }, 1)]) {
      expect(edges(graft(tree, path, 2, 2))).toEqual(edges(stem(graft(tree, path, 2), 2)))
    }
  })
})
