/**
 * What queries and updates of an index have learnt of its trees. It is of one build of the index: the salt of another build makes
 * other trees.
 */
import { TreeMemory } from '../../storage/rank-tree/rank-tree.ts'

export class IndexMemory {
  #salt: string | undefined
  #trees: TreeMemory[] = []

  /** Of the tree of a view, by the number of its rows. */
  ofTree(salt: string, view: number): TreeMemory {
    if (this.#salt !== salt) this.#trees = []
    this.#salt = salt
    this.#trees[view] ??= new TreeMemory()
    return this.#trees[view]
  }
}
