/** Made-up histories for the tests of revision trees, and what is compared of a tree. */
import fc from 'fast-check'
import { expect } from 'vitest'
import { formatRevision, type RevisionId, type RevisionPath } from '../../src/document/ids.ts'
import { NO_PARENT, type StoredBody } from '../../src/document/tree/branch.ts'
import type { RevisionTree } from '../../src/document/tree/revision-tree.ts'
import { graft } from '../../src/document/tree/tree-growth.ts'

/** A path as a replica would send it, and the body of its newest revision. */
export interface Sent {
  readonly path: RevisionPath
  readonly body: StoredBody
}

/**
 * Histories of one document that are consistent with each other: a revision has the same parent and the same fate in all.
 * Some reach back to the first revision, some do not.
 */
export const arbitraryHistories = histories((ids, cut) => ids.slice(0, 1 + (cut % ids.length)))

/** The same, but each reaches back to the first revision. */
export const arbitraryWholeHistories = histories((ids) => ids)

function histories(shorten: (hashes: readonly string[], cut: number) => readonly string[]): fc.Arbitrary<Sent[]> {
  const node = fc.record({
    parent: fc.nat({ max: 7 }),
    isRoot: fc.integer({ min: 0, max: 9 }).map((roll) => roll === 0),
    deleted: fc.boolean(),
    isSent: fc.boolean(),
    isOpaque: fc.integer({ min: 0, max: 9 }).map((roll) => roll === 0),
    cut: fc.nat({ max: 30 }),
  })
  return fc.array(node, { minLength: 1, maxLength: 24 }).map((nodes) => {
    const paths: (readonly string[])[] = []
    const sent: Sent[] = []
    for (const [index, { parent, isRoot, deleted, isSent, isOpaque, cut }] of nodes.entries()) {
      // Parents are among the last few revisions, so that histories get long.
      const ancestors = isRoot || index === 0 ? [] : paths[Math.max(0, index - 1 - parent)]!
      const whole = [isOpaque ? `other${index}` : hexHash(index), ...ancestors]
      paths.push(whole)
      if (isSent || index === nodes.length - 1) {
        sent.push({
          path: { start: whole.length, hashes: shorten(whole, cut) },
          body: deleted ? -(index + 1) : index + 1,
        })
      }
    }
    return sent
  })
}

/** The tree that has learned the histories, one after the other. */
export function grow(histories: readonly Sent[], from?: RevisionTree): RevisionTree {
  let tree = from
  for (const { path, body } of histories) tree = graft(tree, path, body)
  if (tree === undefined) throw new Error('a tree needs a history')
  return tree
}

/** A hash that identifies its revision, and whose order is not that of the numbers. */
export function hexHash(number: number): string {
  return `${(number * 7919) % 16 ** 4}`.padStart(8, '0').repeat(4)
}

/** Every revision with its parent, status and body: what a tree is, however it is laid out. */
export function edges(tree: RevisionTree): string[] {
  const lines = new Set<string>()
  for (const leaf of tree.leaves()) {
    const nodes = tree.ancestry(leaf.revision)
    for (const [index, node] of nodes.entries()) {
      lines.add(`${nodes[index + 1]?.revision} > ${node.revision} ${node.status} ${node.body}`)
    }
  }
  return [...lines].sort()
}

export function revisions(...texts: string[]): RevisionId[] {
  return texts.map((text) => formatRevision(Number(text.split('-')[0]), text.split('-')[1]!))
}

/** `1-a 2-b 3-c`, oldest first, as the path that a replica sends. */
export function pathOf(text: string): RevisionPath {
  const parts = text.split(' ').map((part) => part.split('-'))
  return { start: Number(parts.at(-1)![0]), hashes: parts.map((part) => part[1]!).reverse() }
}

/** What must hold of every tree. */
export function expectSound(tree: RevisionTree): void {
  const seen = new Set<string>()
  for (const [number, branch] of tree.branches.entries()) {
    expect(branch.hashes.length).toBe(branch.bodies.length)
    expect(branch.bodies.length).toBeGreaterThan(0)
    expect(branch.start).toBeGreaterThan(0)
    for (let index = 0; index < branch.bodies.length; index++) seen.add(tree.nodeAt({ branch: number, index }).revision)
    if (branch.parent === NO_PARENT) continue
    const parent = tree.branches[branch.parent]!
    expect(branch.start).toBeGreaterThan(parent.start)
    expect(branch.start).toBeLessThan(parent.start + parent.bodies.length)
  }
  expect(seen.size).toBe(tree.branches.reduce((sum, branch) => sum + branch.bodies.length, 0))
}
