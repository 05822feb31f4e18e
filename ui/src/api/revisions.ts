/** The revision tree of a document, put together from its leaves. */
import { arrayItems, memberText, stringOf } from '../json/json-text.ts'
import { documentPath, requestJson, requestText } from './client.ts'

export type RevisionKind = 'winner' | 'conflict' | 'deleted' | 'available' | 'missing'

export interface Revision {
  readonly rev: string
  readonly parent: string | undefined
  readonly generation: number
  readonly isLeaf: boolean
  readonly kind: RevisionKind
}

export interface Leaf {
  readonly rev: string
  readonly isDeleted: boolean
  readonly text: string
  /** From the leaf to the oldest that is known. */
  readonly path: readonly string[]
}

export interface RevisionTree {
  readonly revisions: readonly Revision[]
  readonly leaves: readonly Leaf[]
  /** More than are drawn. */
  readonly isCut: boolean
}

const LIMIT_BYTES = 16 * 1024 * 1024
/** Leaves whose ancestors are requested. */
const MOST_LEAVES = 30

export async function revisionTree(database: string, id: string, winner: string | undefined): Promise<RevisionTree> {
  const text = await requestText(documentPath(database, id), {
    query: { open_revs: 'all', revs: true },
    limitBytes: LIMIT_BYTES,
  })
  const all = arrayItems(text).flatMap((entry) => {
    const document = memberText(entry, 'ok')
    return document === undefined ? [] : [leafOf(document)]
  })
  const leaves = all.slice(0, MOST_LEAVES)
  const known = new Map<string, string>()
  await Promise.all(
    leaves.map(async ({ rev }) => {
      for (const { rev: one, status } of await statusesOf(database, id, rev)) known.set(one, status)
    }),
  )
  const revisions = new Map<string, Revision>()
  const leafRevisions = new Map(leaves.map((leaf) => [leaf.rev, leaf]))
  for (const { path } of leaves) {
    for (const [index, rev] of path.entries()) {
      if (revisions.has(rev)) break
      const leaf = leafRevisions.get(rev)
      revisions.set(rev, {
        rev,
        parent: path[index + 1],
        generation: Number.parseInt(rev, 10),
        isLeaf: leaf !== undefined,
        kind: kindOf(rev, leaf, winner, known.get(rev)),
      })
    }
  }
  return { revisions: [...revisions.values()], leaves, isCut: all.length > leaves.length }
}

function kindOf(rev: string, leaf: Leaf | undefined, winner: string | undefined, status?: string): RevisionKind {
  if (leaf?.isDeleted) return 'deleted'
  if (rev === winner) return 'winner'
  if (leaf) return 'conflict'
  return status === 'missing' ? 'missing' : 'available'
}

function leafOf(text: string): Leaf {
  const { start, ids }: { start: number; ids: string[] } = JSON.parse(
    memberText(text, '_revisions') ?? '{"start":0,"ids":[]}',
  )
  return {
    rev: stringOf(memberText(text, '_rev')) ?? '',
    isDeleted: memberText(text, '_deleted') === 'true',
    text,
    path: ids.map((digest, index) => `${start - index}-${digest}`),
  }
}

interface RevisionStatus {
  readonly rev: string
  readonly status: string
}

async function statusesOf(database: string, id: string, rev: string): Promise<readonly RevisionStatus[]> {
  const { _revs_info = [] } = await requestJson<{ _revs_info?: RevisionStatus[] }>(documentPath(database, id), {
    query: { rev, revs_info: true },
    limitBytes: LIMIT_BYTES,
  })
  return _revs_info
}
