/**
 * Applies the filter of a changes feed: by document id, by a function, or by a selector. Functions and selectors judge each
 * leaf that would be shown.
 */

import { isDesignId, type RevisionId } from '../../document/ids.ts'
import { conflicts } from '../../document/revisions/winner.ts'
import { pathOfAncestry } from '../../document/tree/branch.ts'
import { TimeSlice } from '../../runtime/clock.ts'
import type { DatabaseView } from '../database-view.ts'
import type { DecodedChange } from '../layout/change-row.ts'
import { stubText } from '../reading/document-text.ts'

export type ChangeFilter = IdFilter | DocumentFilter | SelectorFilter

/** Decides by the id alone. */
export interface IdFilter {
  readonly by: 'id'
  passes(id: string): boolean
  /** The documents that pass, where they can be named: they are looked up instead of being looked for. */
  readonly documents: readonly string[] | 'designs'
}

/** Decides by the documents, given as JSON texts. */
export interface DocumentFilter {
  readonly by: 'document'
  passes(documents: readonly string[]): Promise<readonly boolean[]>
}

/** Decides by the bytes of a document's JSON text, at once. */
export interface SelectorFilter {
  readonly by: 'text'
  /** A promise for large documents: they are matched in a thread. */
  passes(document: Buffer): boolean | Promise<boolean>
}

export const DESIGN_FILTER: IdFilter = { by: 'id', passes: isDesignId, documents: 'designs' }

export function documentIdFilter(ids: readonly string[]): IdFilter {
  const wanted = new Set(ids)
  return { by: 'id', passes: (id) => wanted.has(id), documents: [...wanted] }
}

/** A change, and the leaves of it that are to be shown: one at least. */
export interface FilteredChange {
  readonly change: DecodedChange
  readonly leaves: readonly RevisionId[]
}

export async function passingChanges(
  view: DatabaseView,
  changes: readonly DecodedChange[],
  style: 'winner' | 'all',
  filter: ChangeFilter | undefined,
): Promise<FilteredChange[]> {
  const shown = changes.map((change) => ({
    change,
    leaves: style === 'all' ? change.leaves : change.leaves.slice(0, 1),
  }))
  if (!filter) return shown
  if (filter.by === 'id') return shown.filter(({ change }) => filter.passes(change.id))
  return judged(view, shown, filter)
}

/** The approximate size of documents that are filtered together. */
const PORTION_BYTES = 256 * 1024

/** One leaf that is to be judged. */
interface Candidate {
  readonly change: DecodedChange
  readonly revision: RevisionId
  readonly body: number
  /** What the winner takes: other leaves are taken for as large. */
  readonly bytes: number
  /** The text, given the body; undefined where the reader may not see the document. */
  text(body: Awaited<ReturnType<DatabaseView['body']>>): Buffer | undefined
}

async function judged(
  view: DatabaseView,
  shown: readonly FilteredChange[],
  filter: DocumentFilter | SelectorFilter,
): Promise<FilteredChange[]> {
  const candidates = await candidatesOf(view, shown)
  const passed = new Set<Candidate>()
  for (let first = 0; first < candidates.length; ) {
    const portion = portionOf(candidates, first)
    const bodies = await view.bodies(portion.map(({ body }) => body))
    const visible = portion.flatMap((candidate, i) => {
      const text = candidate.text(bodies[i]!)
      return text === undefined ? [] : [{ candidate, text }]
    })
    const verdicts =
      visible.length === 0
        ? []
        : await verdictsOf(
            filter,
            visible.map(({ text }) => text),
          )
    for (const [i, { candidate }] of visible.entries()) if (verdicts[i]) passed.add(candidate)
    first += portion.length
  }
  const leavesOf = Map.groupBy(passed, ({ change }) => change)
  return shown.flatMap(({ change }) => {
    const leaves = leavesOf.get(change)
    return leaves ? [{ change, leaves: leaves.map(({ revision }) => revision) }] : []
  })
}

async function verdictsOf(
  filter: DocumentFilter | SelectorFilter,
  texts: readonly Buffer[],
): Promise<readonly boolean[]> {
  if (filter.by === 'document') return filter.passes(texts.map((text) => text.toString()))
  const slice = new TimeSlice()
  const verdicts: boolean[] = []
  for (const text of texts) {
    const verdict = filter.passes(text)
    verdicts.push(typeof verdict === 'boolean' ? verdict : await verdict)
    if (slice.isOverNow) await slice.pause()
  }
  return verdicts
}

function portionOf(candidates: readonly Candidate[], first: number): readonly Candidate[] {
  let bytes = 0
  let end = first
  while (end < candidates.length && bytes < PORTION_BYTES) bytes += candidates[end++]!.bytes
  return candidates.slice(first, end)
}

/** The leaves in their order, with the history and the conflicts that functions see. */
async function candidatesOf(view: DatabaseView, shown: readonly FilteredChange[]): Promise<Candidate[]> {
  const records = await view.records(shown.map(({ change }) => change.id))
  return shown.flatMap(({ change, leaves }, i) => {
    const record = records[i]?.record
    if (!record) return []
    const { tree, bodyBytes } = record
    const losers = conflicts(tree)
    return leaves.flatMap((revision): Candidate[] => {
      const node = tree.find(revision)
      if (!node) return []
      const deleted = node.status === 'deleted'
      const history = {
        revisions: pathOfAncestry(tree.ancestry(revision)),
        conflicts: revision === record.winner ? losers : undefined,
      }
      const text: Candidate['text'] = (body) => {
        const parts = { id: change.id, revision, body: body.text, deleted, ...history }
        const document = { revision, deleted, parts, attachments: body.attachments, knownGeneration: 0 }
        const readable = view.reading ? view.reading.readable(document) : document
        return readable && stubText(readable)
      }
      return [{ change, revision, body: node.body, bytes: bodyBytes, text }]
    })
  })
}
