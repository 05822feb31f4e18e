/**
 * The branches of a revision tree by their numbers. Never changed: one more, or another in its place, makes a new list
 * that shares most of the old one, so that a tree may grow to thousands of branches one by one.
 */
import type { Branch } from './branch.ts'

export class BranchList {
  readonly length: number
  readonly #pieces: readonly (readonly Branch[])[]
  #all: readonly Branch[] | undefined

  static of(branches: readonly Branch[]): BranchList {
    if (branches.length <= PIECE_LENGTH) return new BranchList([branches], branches.length)
    const pieces: Branch[][] = []
    for (let first = 0; first < branches.length; first += PIECE_LENGTH) {
      pieces.push(branches.slice(first, first + PIECE_LENGTH))
    }
    return new BranchList(pieces, branches.length)
  }

  private constructor(pieces: readonly (readonly Branch[])[], length: number) {
    this.#pieces = pieces
    this.length = length
  }

  at(number: number): Branch {
    return this.#pieces[number >> PIECE_BITS]![number & (PIECE_LENGTH - 1)]!
  }

  all(): readonly Branch[] {
    this.#all ??= this.#pieces.length === 1 ? this.#pieces[0]! : this.#pieces.flat()
    return this.#all
  }

  /** With one more at the end. */
  append(branch: Branch): BranchList {
    const last = this.#pieces.at(-1)!
    const pieces = last.length < PIECE_LENGTH ? this.#pieces.with(-1, [...last, branch]) : [...this.#pieces, [branch]]
    return new BranchList(pieces, this.length + 1)
  }

  replace(number: number, branch: Branch): BranchList {
    const piece = number >> PIECE_BITS
    const changed = this.#pieces[piece]!.with(number & (PIECE_LENGTH - 1), branch)
    return new BranchList(this.#pieces.with(piece, changed), this.length)
  }
}

const PIECE_BITS = 7
const PIECE_LENGTH = 1 << PIECE_BITS
