import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type Decision, decide, type Edit, type Written } from '../../src/document/decide.ts'
import { parseRevision, type RevisionId } from '../../src/document/ids.ts'
import { EMPTY_BODY_TERM } from '../../src/document/revisions/new-revision.ts'
import { leavesBestFirst } from '../../src/document/revisions/winner.ts'
import type { RevisionTree } from '../../src/document/tree/revision-tree.ts'
import { encodeTree } from '../../src/document/tree/tree-codec.ts'
import { graft } from '../../src/document/tree/tree-growth.ts'
import { scanDocument } from '../../src/encoding/json/json-text.ts'
import { arbitraryWholeHistories, edges, pathOf } from './forest.ts'

const LIMIT = 1000

describe('an interactive edit', () => {
  it('creates a document of generation 1', () => {
    const created = written(decide(undefined, update(undefined, 1), LIMIT))
    expect(created.revision).toBe('1-23202479633c2b380f79507a776743d5')
    expect(created.winner).toMatchObject({ revision: created.revision, status: 'live', body: 1 })
    expect(created).toMatchObject({ storesBody: true, droppedBodies: [] })
  })

  it('creates a tombstone of generation 1 when it says so', () => {
    expect(written(decide(undefined, deletion(undefined, 1), LIMIT)).winner).toMatchObject({
      generation: 1,
      status: 'deleted',
    })
  })

  it('conflicts when it names a revision of an unknown document', () => {
    expect(decide(undefined, update('1-a', 1), LIMIT)).toEqual({ outcome: 'conflict' })
  })

  it('extends the winner', () => {
    const tree = replicated('1-a 2-b')
    const { winner, tree: after } = written(decide(tree, update('2-b', 7), LIMIT))
    expect(winner).toMatchObject({ generation: 3, body: 7 })
    expect(after.leaves()).toHaveLength(1)
    expect(tree.leaves()[0]!.generation).toBe(2)
  })

  it('becomes one with the same edit that another server sent without its history', () => {
    const created = written(decide(undefined, update(undefined, 1), LIMIT))
    const here = written(decide(created.tree, deletion(created.revision, 2), LIMIT))
    const there: Edit = { kind: 'replicated', path: pathOf(here.revision), deleted: true, body: 3 }
    const both = written(decide(written(decide(created.tree, there, LIMIT)).tree, deletion(created.revision, 4), LIMIT))
    expect(both.revision).toBe(here.revision)
    expect(both.tree.leaves().map(({ revision }) => revision)).toEqual([here.revision])
    expect(both.tree.ancestry(here.revision).map(({ revision }) => revision)).toEqual([here.revision, created.revision])
  })

  it('extends a conflicting leaf, live or deleted', () => {
    const tree = replicated('1-a 2-b', '1-a 2-c', '1-a 2-d!')
    expect(leafNames(written(decide(tree, update('2-b', 7), LIMIT)))).toEqual([3, 2, 2])
    expect(leafNames(written(decide(tree, update('2-d', 7), LIMIT)))).toEqual([3, 2, 2])
  })

  it.each([undefined, '1-a', '2-x', '1-x', '3-b'])('conflicts when it names %s instead of a leaf', (parent) => {
    expect(decide(replicated('1-a 2-b'), update(parent, 7), LIMIT)).toEqual({ outcome: 'conflict' })
  })

  it('deletes a losing leaf, and the document stays', () => {
    const { winner } = written(decide(replicated('1-a 2-b', '1-a 2-c'), deletion('2-b', 7), LIMIT))
    expect(winner).toMatchObject({ revision: '2-c', status: 'live' })
  })

  it('shows a conflicting leaf when the winner is deleted', () => {
    const { winner } = written(decide(replicated('1-a 2-b', '1-a 2-c'), deletion('2-c', 7), LIMIT))
    expect(winner).toMatchObject({ revision: '2-b', status: 'live' })
  })

  it('cuts history at the revision limit and returns the dropped bodies', () => {
    let tree = written(decide(undefined, update(undefined, 1), 2)).tree
    tree = written(decide(tree, update(tree.leaves()[0]!.revision, 2), 2)).tree
    const third = written(decide(tree, update(tree.leaves()[0]!.revision, 3), 2))
    expect(third.tree.ancestry(third.revision).map((node) => node.body)).toEqual([3, 2])
    expect(third.droppedBodies).toEqual([1])
  })
})

describe('re-creation', () => {
  const deleted = replicated('1-a 2-b!')

  it('extends the winning tombstone', () => {
    const { winner, tree } = written(decide(deleted, update(undefined, 7), LIMIT))
    expect(winner).toMatchObject({ generation: 3, status: 'live' })
    expect(tree.leaves()).toHaveLength(1)
  })

  it('continues counting: create 1, delete 2, re-create 3, delete 4, re-create 5', () => {
    let tree: RevisionTree | undefined
    const generations: number[] = []
    for (let body = 1; body <= 5; body++) {
      const edit = body % 2 === 1 ? update(undefined, body) : deletion(tree?.leaves()[0]?.revision, body)
      const decision = written(decide(tree, edit, LIMIT))
      tree = decision.tree
      generations.push(decision.winner.generation)
    }
    expect(generations).toEqual([1, 2, 3, 4, 5])
  })

  it('may name the tombstone', () => {
    expect(written(decide(deleted, update('2-b', 7), LIMIT)).winner).toMatchObject({ generation: 3, status: 'live' })
    expect(written(decide(deleted, deletion('2-b', 7), LIMIT)).winner).toMatchObject({
      generation: 3,
      status: 'deleted',
    })
  })

  it('may not name an older revision', () => {
    expect(decide(deleted, update('1-a', 7), LIMIT)).toEqual({ outcome: 'conflict' })
  })

  it('is no deletion', () => {
    expect(decide(deleted, deletion(undefined, 7), LIMIT)).toEqual({ outcome: 'conflict' })
  })

  it('extends the best tombstone of several', () => {
    const { tree } = written(decide(replicated('1-a 2-b!', '1-a 2-c!'), update(undefined, 7), LIMIT))
    expect(leavesBestFirst(tree).map((leaf) => leaf.generation)).toEqual([3, 2])
    expect(leavesBestFirst(tree)[1]!.revision).toBe('2-b')
  })
})

describe('a branching edit', () => {
  it('is like any other edit where there is no conflict', () => {
    const tree = replicated('1-a 2-b')
    expect(decide(tree, branching('2-b', 7), LIMIT)).toEqual(decide(tree, update('2-b', 7), LIMIT))
    expect(decide(undefined, branching(undefined, 7), LIMIT)).toEqual(decide(undefined, update(undefined, 7), LIMIT))
  })

  it('branches off an older revision', () => {
    const { tree, revision } = written(decide(replicated('1-a 2-b 3-c'), branching('1-a', 7), LIMIT))
    expect(tree.leaves()).toHaveLength(2)
    expect(tree.ancestry(revision).map((node) => node.generation)).toEqual([2, 1])
  })

  it('makes another root without a parent', () => {
    const { tree, revision } = written(decide(replicated('1-a'), branching(undefined, 7), LIMIT))
    expect(tree.leaves()).toHaveLength(2)
    expect(revision).toMatch(/^1-/)
  })

  it('adds a parent that was unknown', () => {
    const { tree, revision } = written(decide(undefined, branching('4-q', 7), LIMIT))
    expect(tree.ancestry(revision).map((node) => node.status)).toEqual(['live', 'missing'])
  })

  it('is known when it was made before', () => {
    const first = written(decide(replicated('1-a 2-b 3-c'), branching('1-a', 7), LIMIT))
    expect(decide(first.tree, branching('1-a', 8), LIMIT)).toEqual({ outcome: 'known', revision: first.revision })
  })

  it('conflicts when its parent cannot exist', () => {
    expect(decide(undefined, branching('0-1', 7), LIMIT)).toEqual({ outcome: 'conflict' })
  })
})

describe('a replicated edit', () => {
  it.each(['1-23202479633c2b380f79507a776743d5', '3-23202479633c2b380f79507a776743d5', '2-other'])(
    'of one revision, %s, of a new document makes the tree that joining the path would make',
    (revision) => {
      for (const deleted of [false, true]) {
        const edit: Edit = { kind: 'replicated', path: pathOf(revision), deleted, body: 7 }
        const { tree, ...made } = written(decide(undefined, edit, LIMIT))
        expect(encodeTree(tree)).toEqual(encodeTree(graft(undefined, pathOf(revision), deleted ? -7 : 7)))
        expect(tree.ancestry(made.revision)).toEqual([made.winner])
        expect(made).toMatchObject({ revision, storesBody: true, droppedBodies: [] })
      }
    },
  )

  it('is stored as it is', () => {
    const { tree, winner, revision } = written(decide(undefined, replica('2-b 3-c', 7), LIMIT))
    expect(revision).toBe('3-c')
    expect(winner).toMatchObject({ revision: '3-c', body: 7 })
    expect(edges(tree)).toEqual(['2-b > 3-c live 7', 'undefined > 2-b missing 0'])
  })

  it('is known when its body is there', () => {
    expect(decide(replicated('1-a 2-b'), replica('1-a 2-b', 7), LIMIT)).toEqual({ outcome: 'known', revision: '2-b' })
    expect(decide(replicated('1-a 2-b'), replica('2-b', 7), LIMIT)).toEqual({ outcome: 'known', revision: '2-b' })
  })

  it('is known although it has ancestors beyond the revision limit', () => {
    const tree = written(decide(undefined, replica('1-a 2-b 3-c', 1), 2)).tree
    expect(decide(tree, replica('1-a 2-b 3-c', 7), 2)).toEqual({ outcome: 'known', revision: '3-c' })
  })

  it('may add only history', () => {
    const { tree, storesBody } = written(decide(replicated('1-a', '3-c'), replica('1-a 2-b 3-c', 7), LIMIT))
    expect(storesBody).toBe(false)
    expect(tree.leaves()).toHaveLength(1)
    expect(tree.bodies()).not.toContain(7)
  })

  it('adds the body of a revision that was known without one', () => {
    const { tree, storesBody } = written(decide(replicated('1-a 2-b'), replica('1-a', 7), LIMIT))
    expect(storesBody).toBe(true)
    expect(edges(tree)).toContain('undefined > 1-a live 7')
  })

  it('makes the artificial conflict of a replica beyond the limit', () => {
    const tree = written(decide(undefined, replica('1-a 2-b 3-c 4-d', 1), 2)).tree
    expect(written(decide(tree, replica('1-a 2-x', 7), 2)).tree.leaves()).toHaveLength(2)
  })

  it('gives every server the same winner, whatever came first', () => {
    const orders = arbitraryWholeHistories.chain((histories) =>
      fc.tuple(fc.constant(histories), fc.shuffledSubarray(histories, { minLength: histories.length })),
    )
    fc.assert(
      fc.property(orders, ([histories, otherOrder]) => {
        const [left, right] = [histories, otherOrder].map((order) =>
          order.reduce<RevisionTree | undefined>((tree, { path, body }) => {
            const edit: Edit = { kind: 'replicated', path, deleted: body < 0, body: Math.abs(body) }
            return written(decide(tree, edit, LIMIT)).tree
          }, undefined),
        )
        expect(edges(left!)).toEqual(edges(right!))
        expect(leavesBestFirst(left!)).toEqual(leavesBestFirst(right!))
      }),
    )
  })
})

const BODY = scanDocument(Buffer.from('{"a":1}')).term

function update(parent: string | undefined, body: number): Edit {
  return { kind: 'interactive', parent: named(parent), content: { deleted: false, term: BODY, attachments: [] }, body }
}

function deletion(parent: string | undefined, body: number): Edit {
  const content = { deleted: true, term: EMPTY_BODY_TERM, attachments: [] }
  return { kind: 'interactive', parent: named(parent), content, body }
}

function branching(parent: string | undefined, body: number): Edit {
  return { kind: 'branching', parent: named(parent), content: { deleted: false, term: BODY, attachments: [] }, body }
}

function replica(path: string, body: number): Edit {
  return { kind: 'replicated', path: pathOf(path), deleted: false, body }
}

/** A tree of paths, those with a mark at the end deleted. */
function replicated(...paths: string[]): RevisionTree {
  const tree = paths.reduce<RevisionTree | undefined>((before, path, index) => {
    const deleted = path.endsWith('!')
    const edit: Edit = { kind: 'replicated', path: pathOf(path.replace('!', '')), deleted, body: index + 1 }
    return written(decide(before, edit, LIMIT)).tree
  }, undefined)
  if (tree === undefined) throw new Error('a tree needs a path')
  return tree
}

function written(decision: Decision): Written {
  if (decision.outcome !== 'written') throw new Error(`the decision was ${decision.outcome}`)
  return decision
}

function leafNames({ tree }: Written): number[] {
  return leavesBestFirst(tree).map((leaf) => leaf.generation)
}

function named(revision: string | undefined): RevisionId | undefined {
  return revision === undefined ? undefined : parseRevision(revision)
}
