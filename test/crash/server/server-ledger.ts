/**
 * What one client of a server was promised, and so what its documents must be after a crash: the acknowledged steps,
 * all of them, and the one that was under way, wholly or not at all. Exact: every leaf of every document with its text.
 */
import type { RevisionId } from '../../../src/document/ids.ts'
import type { DatabaseContents } from '../../database/database-contents.ts'

export interface Leaf {
  readonly deleted: boolean
  /** The body, as it is stored. */
  readonly text: string
}

export interface DocumentStep {
  readonly id: string
  /** The leaf that it goes on from; undefined where it begins a branch. */
  readonly ends: RevisionId | undefined
  readonly begins: RevisionId
  readonly leaf: Leaf
}

export interface LocalStep {
  readonly id: string
  /** Undefined when it is deleted. */
  readonly document: LocalState | undefined
}

export interface LocalState {
  readonly count: number
  readonly text: string
}

/** What one request does, all at once. */
export interface Step {
  readonly documents: readonly DocumentStep[]
  readonly locals: readonly LocalStep[]
}

export class Ledger {
  readonly #prefix: string
  readonly #documents = new Map<string, ReadonlyMap<RevisionId, Leaf>>()
  readonly #locals = new Map<string, LocalState>()
  /** Steps that the server may take when it likes. */
  readonly #later = new Set<Step>()
  #underWay: Step | undefined
  #changes = 0

  /** Ids of the client's documents begin with the prefix, and nobody else's do. */
  constructor(prefix: string) {
    this.#prefix = prefix
  }

  get documents(): ReadonlyMap<string, ReadonlyMap<RevisionId, Leaf>> {
    return this.#documents
  }

  local(id: string): LocalState | undefined {
    return this.#locals.get(id)
  }

  /** How many changes of documents there were: each took one sequence. */
  get changes(): number {
    return this.#changes
  }

  /** Said before the request is sent. */
  begin(step: Step): void {
    this.#underWay = step
  }

  /** Said when its promise came. */
  acknowledged(): void {
    if (this.#underWay) this.#take(this.#underWay)
    this.#underWay = undefined
  }

  /** The step will be taken some time, if the server lives. Said before the request is sent. */
  later(step: Step): void {
    this.#later.add(step)
  }

  /** All that was to come later has come, says the server. */
  flushed(): void {
    for (const step of this.#later) this.#take(step)
    this.#later.clear()
  }

  /** Holds the contents against the promises, in sentences, and takes over what they say of the rest. */
  settle(contents: DatabaseContents): string[] {
    const problems: string[] = []
    const step = this.#underWay
    this.#underWay = undefined
    if (step) {
      if (this.#isTaken(contents, step)) this.#take(step)
      else if (!this.#isUntouched(contents, step)) {
        problems.push(`A request is half there: ${step.documents.map(({ id }) => id)}`)
      }
    }
    for (const later of this.#later) if (this.#isTaken(contents, later)) this.#take(later)
    this.#later.clear()
    return [...problems, ...this.#differences(contents)]
  }

  #take({ documents, locals }: Step): void {
    for (const { id, ends, begins, leaf } of documents) {
      const leaves = new Map(this.#documents.get(id))
      if (ends) leaves.delete(ends)
      this.#documents.set(id, leaves.set(begins, leaf))
    }
    this.#changes += new Set(documents.map(({ id }) => id)).size
    for (const { id, document } of locals) {
      if (document) this.#locals.set(id, document)
      else this.#locals.delete(id)
    }
  }

  #isTaken(contents: DatabaseContents, { documents, locals }: Step): boolean {
    return (
      documents.every(({ id, begins }) => contents.treeOf(id)?.isLeaf(begins)) &&
      locals.every(({ id, document }) => contents.locals.get(id)?.count === document?.count)
    )
  }

  #isUntouched(contents: DatabaseContents, { documents, locals }: Step): boolean {
    return (
      documents.every(({ id, begins }) => !contents.treeOf(id)?.find(begins)) &&
      locals.every(({ id }) => contents.locals.get(id)?.count === this.#locals.get(id)?.count)
    )
  }

  #differences(contents: DatabaseContents): string[] {
    const problems: string[] = []
    for (const [id, leaves] of this.#documents) {
      const found = leavesIn(contents, id)
      if (textOf(found) !== textOf(leaves)) {
        problems.push(`'${id}' has the leaves ${textOf(found)} and not ${textOf(leaves)}`)
      }
    }
    for (const [id, { count, text }] of this.#locals) {
      const found = contents.locals.get(id)
      if (found?.count !== count || found.text.toString() !== text) {
        problems.push(`'${id}' has the revision 0-${found?.count} and not 0-${count}, or another text`)
      }
    }
    for (const id of [...contents.records.keys(), ...contents.locals.keys()]) {
      if (!id.replace('_local/', '').startsWith(this.#prefix)) continue
      if (!this.#documents.has(id) && !this.#locals.has(id)) problems.push(`'${id}' is there and ought not to be`)
    }
    return problems
  }
}

function leavesIn(contents: DatabaseContents, id: string): Map<RevisionId, Leaf> {
  const leaves = contents.treeOf(id)?.leaves() ?? []
  return new Map(
    leaves.map(({ revision, status, body }) => [
      revision,
      { deleted: status === 'deleted', text: contents.bodies.get(body)?.text.toString() ?? 'nothing' },
    ]),
  )
}

function textOf(leaves: ReadonlyMap<RevisionId, Leaf>): string {
  const parts = [...leaves].map(([revision, { deleted, text }]) => `${revision}${deleted ? ' deleted' : ''} ${text}`)
  return parts.length === 0 ? 'none' : parts.sort().join(', ')
}
