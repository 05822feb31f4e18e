/**
 * A database as one would explain it: documents are plain objects that keep every revision with its parent. Slow, and
 * with nothing in common with the real one but the way in which revision ids are made.
 */
import type { DocumentEdit, LocalEdit } from '../../src/database/writing/edit.ts'
import { formatRevision, generationOf, hashOf, type RevisionId } from '../../src/document/ids.ts'
import { newRevision } from '../../src/document/revisions/new-revision.ts'

export interface NaiveRevision {
  parent: RevisionId | undefined
  /** Undefined when only the revision is known. */
  text: string | undefined
  deleted: boolean
}

export interface NaiveDocument {
  sequence: number
  revisions: Map<RevisionId, NaiveRevision>
}

export class NaiveDatabase {
  updateSequence = 0
  purgeSequence = 0
  revisionLimit = 1000
  readonly documents = new Map<string, NaiveDocument>()
  readonly locals = new Map<string, { count: number; text: string }>()

  /** The outcomes: a revision, or `conflict`, or `missing`. */
  write(edits: readonly DocumentEdit[]): string[] {
    const changed = new Set<string>()
    const outcomes = edits.map((edit) => {
      if (edit.kind === 'local') return this.#writeLocal(edit)
      const before = this.#revisions(edit.id)
      const written = writtenRevision(before, edit)
      if (written === 'conflict') return 'conflict'
      const after = stemmed(written.revisions, this.revisionLimit)
      if (fingerprint(after) !== fingerprint(before)) {
        this.documents.set(edit.id, { sequence: this.documents.get(edit.id)?.sequence ?? 0, revisions: after })
        changed.add(edit.id)
      }
      return written.revision
    })
    for (const id of changed) this.documents.get(id)!.sequence = ++this.updateSequence
    return outcomes
  }

  purge(request: ReadonlyMap<string, readonly RevisionId[]>): Map<string, RevisionId[]> {
    const result = new Map<string, RevisionId[]>()
    this.purgeSequence++
    this.updateSequence++
    for (const [id, wanted] of request) {
      const revisions = this.#revisions(id)
      const purged = [...new Set(wanted)].filter((revision) => leavesOf(revisions).includes(revision))
      if (purged.length === 0) continue
      result.set(id, purged)
      for (const leaf of purged) removeBranch(revisions, leaf)
      if (revisions.size === 0) this.documents.delete(id)
      else this.documents.set(id, { sequence: ++this.updateSequence, revisions })
    }
    return result
  }

  setRevisionLimit(limit: number): void {
    this.revisionLimit = limit
    this.updateSequence++
  }

  compact(): void {
    for (const document of this.documents.values()) {
      document.revisions = stemmed(document.revisions, this.revisionLimit)
      const leaves = new Set(leavesOf(document.revisions))
      for (const [revision, node] of document.revisions) if (!leaves.has(revision)) node.text = undefined
    }
  }

  #revisions(id: string): Map<RevisionId, NaiveRevision> {
    return copyOf(this.documents.get(id)?.revisions ?? new Map())
  }

  #writeLocal({ id, parent, deleted, body }: LocalEdit): string {
    const current = this.locals.get(id)
    if (deleted && !current) return 'missing'
    const expected = `0-${current?.count ?? 0}`
    const fits = parent === undefined ? !current : parent === 'any' || parent === expected
    if (!fits) return 'conflict'
    const count = (current?.count ?? 0) + 1
    if (deleted) this.locals.delete(id)
    else this.locals.set(id, { count, text: body.toString() })
    return `0-${deleted ? 0 : count}`
  }
}

/** Best first: live before deleted, then the higher generation, then the higher hash. */
export function leavesBestFirst(revisions: ReadonlyMap<RevisionId, NaiveRevision>): RevisionId[] {
  const rank = (revision: RevisionId) =>
    `${revisions.get(revision)!.deleted ? 0 : 1} ${String(generationOf(revision)).padStart(15, '0')} ${hashOf(revision)}`
  return leavesOf(revisions).sort((left, right) => (rank(left) < rank(right) ? 1 : -1))
}

export function leavesOf(revisions: ReadonlyMap<RevisionId, NaiveRevision>): RevisionId[] {
  const parents = new Set([...revisions.values()].map(({ parent }) => parent))
  return [...revisions.keys()].filter((revision) => !parents.has(revision))
}

/** Everything about the revisions, in one order. */
export function fingerprint(revisions: ReadonlyMap<RevisionId, NaiveRevision>): string {
  return [...revisions]
    .map(([revision, { parent, text, deleted }]) => `${parent} > ${revision} ${text} ${text ? deleted : ''}`)
    .sort()
    .join('\n')
}

type Revisions = Map<RevisionId, NaiveRevision>

function writtenRevision(
  revisions: Revisions,
  edit: Exclude<DocumentEdit, LocalEdit>,
): { revision: RevisionId; revisions: Revisions } | 'conflict' {
  const { deleted } = edit
  const text = edit.body.toString()
  if (edit.kind === 'replicated') {
    const path = edit.path.hashes.map((hash, i) => formatRevision(edit.path.start - i, hash))
    return { revision: path[0]!, revisions: merged(revisions, path, { text, deleted }) }
  }
  const content = { deleted, term: edit.term, attachments: [] }
  const parent = extendedLeaf(revisions, edit.parent, deleted)
  if (parent !== 'conflict') {
    const revision = newRevision(parent, content)
    return { revision, revisions: merged(revisions, parent ? [revision, parent] : [revision], { text, deleted }) }
  }
  if (edit.kind === 'interactive') return 'conflict'
  const revision = newRevision(edit.parent, content)
  const path = edit.parent ? [revision, edit.parent] : [revision]
  return { revision, revisions: merged(revisions, path, { text, deleted }) }
}

function extendedLeaf(
  revisions: Revisions,
  named: RevisionId | undefined,
  deleted: boolean,
): RevisionId | undefined | 'conflict' {
  if (revisions.size === 0) return named === undefined ? undefined : 'conflict'
  if (named !== undefined) return leavesOf(revisions).includes(named) ? named : 'conflict'
  const winner = leavesBestFirst(revisions)[0]!
  return revisions.get(winner)!.deleted && !deleted ? winner : 'conflict'
}

/** Adds a path, newest first, whose newest revision has that body. What is known stays as it is. */
function merged(
  revisions: Revisions,
  path: readonly RevisionId[],
  body: { text: string; deleted: boolean },
): Revisions {
  const result = copyOf(revisions)
  for (const [i, revision] of path.entries()) {
    const parent = path[i + 1]
    const known = result.get(revision)
    if (!known) result.set(revision, { parent, text: undefined, deleted: false })
    else if (known.parent === undefined) known.parent = parent
    else if (known.parent !== parent) break
  }
  const newest = result.get(path[0]!)!
  if (newest.text === undefined) Object.assign(newest, body)
  return result
}

/** Keeps the newest revisions of each branch. */
function stemmed(revisions: Revisions, limit: number): Revisions {
  const kept = new Set<RevisionId>()
  for (const leaf of leavesOf(revisions)) {
    let revision: RevisionId | undefined = leaf
    for (let left = limit; revision && left > 0; left--) {
      kept.add(revision)
      revision = revisions.get(revision)?.parent
    }
  }
  return new Map(
    [...copyOf(revisions)]
      .filter(([revision]) => kept.has(revision))
      .map(([revision, node]) => [
        revision,
        { ...node, parent: node.parent && kept.has(node.parent) ? node.parent : undefined },
      ]),
  )
}

/** The leaf and what leads to it alone. */
function removeBranch(revisions: Revisions, leaf: RevisionId): void {
  let revision: RevisionId | undefined = leaf
  while (revision && leavesOf(revisions).includes(revision)) {
    const parent: RevisionId | undefined = revisions.get(revision)!.parent
    revisions.delete(revision)
    revision = parent
  }
}

function copyOf(revisions: ReadonlyMap<RevisionId, NaiveRevision>): Revisions {
  return new Map([...revisions].map(([revision, node]) => [revision, { ...node }]))
}
