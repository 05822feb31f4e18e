/** What clients did to one document and saw of it, as operations on the set of its leaves. */
import type { Operation } from './linearizable.ts'

/** Revisions of the leaves, with whether they are tombstones. */
export type Leaves = ReadonlyMap<string, boolean>

export const NO_LEAVES: Leaves = new Map()

export function leavesKey(leaves: Leaves): string {
  return [...leaves]
    .map(([rev, deleted]) => `${rev}${deleted ? '*' : ''}`)
    .sort()
    .join(' ')
}

/** Live before deleted, then the higher generation, then the higher hash. */
export function winnerOf(leaves: Leaves): string | undefined {
  const rank = ([rev, deleted]: [string, boolean]) => {
    const [generation = '', hash = ''] = rev.split('-')
    return `${deleted ? 0 : 1} ${generation.padStart(9, '0')} ${hash}`
  }
  return [...leaves].sort((a, b) => (rank(a) < rank(b) ? 1 : -1))[0]?.[0]
}

/** The winner where a reader sees the document. */
export function visibleRevision(leaves: Leaves): string | undefined {
  const winner = winnerOf(leaves)
  return winner === undefined || leaves.get(winner) ? undefined : winner
}

export type Act =
  /** An edit on a parent; without a result it was refused with a conflict. */
  | {
      readonly kind: 'edit'
      readonly parent: string | undefined
      readonly deleted: boolean
      readonly rev: string | undefined
    }
  /** A revision that came from elsewhere: always taken. */
  | { readonly kind: 'graft'; readonly rev: string }
  | { readonly kind: 'purge'; readonly rev: string; readonly isPurged: boolean }
  | { readonly kind: 'leaves'; readonly seen: Leaves }
  | { readonly kind: 'visible'; readonly seen: string | undefined }

export type Noted = Omit<Operation<Leaves>, 'apply'> & { readonly act: Act }

export function operationOf(noted: Noted): Operation<Leaves> {
  return { ...noted, apply: (leaves) => applied(leaves, noted.act) }
}

function applied(leaves: Leaves, act: Act): Leaves | undefined {
  switch (act.kind) {
    case 'edit': {
      const extended = extendedLeaf(leaves, act.parent, act.deleted)
      if (extended === 'conflict' || act.rev === undefined) {
        return extended === 'conflict' && act.rev === undefined ? leaves : undefined
      }
      return changed(leaves, extended, [act.rev, act.deleted])
    }
    case 'graft':
      return changed(leaves, undefined, [act.rev, false])
    case 'purge':
      if (leaves.has(act.rev) !== act.isPurged) return undefined
      return act.isPurged ? changed(leaves, act.rev) : leaves
    case 'leaves':
      return leavesKey(leaves) === leavesKey(act.seen) ? leaves : undefined
    case 'visible':
      return visibleRevision(leaves) === act.seen ? leaves : undefined
  }
}

/** The leaf that an edit extends; undefined where it is the first revision. */
function extendedLeaf(leaves: Leaves, parent: string | undefined, deleted: boolean): string | undefined | 'conflict' {
  if (parent !== undefined) return leaves.has(parent) ? parent : 'conflict'
  if (leaves.size === 0) return undefined
  return visibleRevision(leaves) === undefined && !deleted ? winnerOf(leaves) : 'conflict'
}

function changed(leaves: Leaves, removed: string | undefined, added?: [string, boolean]): Leaves {
  const result = new Map(leaves)
  if (removed !== undefined) result.delete(removed)
  if (added) result.set(...added)
  return result
}
