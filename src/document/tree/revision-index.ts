/**
 * Where each revision of a tree is. For trees with so many branches that looking through them takes too long; it grows
 * with the tree, and belongs to the newest one only.
 */
import type { Branch, Place } from './branch.ts'

export class RevisionIndex {
  readonly #places = new Map<string, Place>()

  constructor(branches: readonly Branch[]) {
    for (const [number, branch] of branches.entries()) this.add(number, branch, 0)
  }

  find(generation: number, hash: string): Place | undefined {
    return this.#places.get(`${generation}-${hash}`)
  }

  /** The revisions of a branch from this index on. */
  add(number: number, { start, hashes, bodies }: Branch, from: number): void {
    for (let index = from; index < bodies.length; index++) {
      this.#places.set(`${start + index}-${hashes.at(index)}`, { branch: number, index })
    }
  }
}
