/**
 * Opens revisions of a document a portion at a time: a document may have thousands of leaves that do not fit into memory
 * together. Revisions that were found come first, then the missing ones.
 */
import type { RevisionId } from '../../document/ids.ts'
import type { Database } from '../database.ts'
import type { DatabaseView } from '../database-view.ts'
import { wantedAttachments } from './document-text.ts'
import {
  type ChosenRevisions,
  chooseRevisions,
  type FoundRevision,
  openChosen,
  openRevisions,
  type RevisionOptions,
} from './open-document.ts'
import { type Kept, openKept } from './open-kept.ts'

export interface PortionOptions extends RevisionOptions {
  /** Whether the contents of attachments are sent too: they are kept until the next portion is asked for. */
  readonly contents: boolean
}

/** What was opened so far, and what comes after it. To be released, whether it was used or not. */
export interface RevisionPortions extends Disposable {
  /** Whether there are no rows, not even for missing revisions. */
  readonly isEmpty: boolean
  /** A portion is to be used up before the next one is asked for. */
  portions(): AsyncGenerator<readonly FoundRevision[]>
}

/** The first portion is opened at once: nearly always it is all there is. */
export async function openRevisionPortions(
  database: Database,
  id: string,
  wanted: 'all' | readonly RevisionId[],
  options: PortionOptions,
): Promise<RevisionPortions> {
  const { opened, release } = await openKept(
    database,
    (view) => openFirst(view, id, wanted, options),
    ({ portion }) => contentsOf(portion, options),
  )
  const { chosen, portion } = opened
  let isKept = true
  const releaseOnce = () => {
    if (isKept) release()
    isKept = false
  }
  return {
    isEmpty: portion.length === 0 && chosen.missing.length === 0,
    portions: () => portionsOf(database, id, { chosen, first: { opened: portion, release: releaseOnce } }, options),
    [Symbol.dispose]: releaseOnce,
  }
}

/** A portion ends with the revision that reaches one of these. */
const PORTION_BYTES = 256 * 1024
const PORTION_REVISIONS = 100

async function openFirst(
  view: DatabaseView,
  id: string,
  wanted: 'all' | readonly RevisionId[],
  options: PortionOptions,
): Promise<{ chosen: ChosenRevisions; portion: FoundRevision[] }> {
  // What the user may not see is known only after all are opened.
  if (view.reading) return { chosen: NONE, portion: await openRevisions(view, id, wanted, options) }
  const chosen = await chooseRevisions(view, id, wanted, options)
  return { chosen, portion: await openPortion(view, id, chosen, 0, options) }
}

const NONE: ChosenRevisions = { tree: undefined, nodes: [], missing: [] }

interface Begun {
  readonly chosen: ChosenRevisions
  readonly first: Kept<FoundRevision[]>
}

async function* portionsOf(
  database: Database,
  id: string,
  { chosen, first }: Begun,
  options: PortionOptions,
): AsyncGenerator<readonly FoundRevision[]> {
  const missing: FoundRevision[] = chosen.missing.map((revision) => ({ found: false, revision }))
  let done = 0
  for (let kept = first; ; kept = await openNext(database, id, chosen, done, options)) {
    const { opened, release } = kept
    try {
      yield opened.filter(({ found }) => found)
    } finally {
      release()
    }
    missing.push(...opened.filter(({ found }) => !found))
    done += opened.length
    if (done >= chosen.nodes.length) break
  }
  if (missing.length > 0) yield missing
}

function openNext(
  database: Database,
  id: string,
  chosen: ChosenRevisions,
  done: number,
  options: PortionOptions,
): Promise<Kept<FoundRevision[]>> {
  return openKept(
    database,
    (view) => openPortion(view, id, chosen, done, options),
    (portion) => contentsOf(portion, options),
  )
}

/** The next revisions; one that was compacted or purged since it was chosen is not found. */
async function openPortion(
  view: DatabaseView,
  id: string,
  { tree, nodes }: ChosenRevisions,
  done: number,
  options: PortionOptions,
): Promise<FoundRevision[]> {
  const portion: FoundRevision[] = []
  let bytes = 0
  for (const node of nodes.slice(done, done + PORTION_REVISIONS)) {
    const document = tree && (await openChosen(view, id, tree, node, options))
    portion.push(document ? { found: true, document } : { found: false, revision: node.revision })
    bytes += document?.parts.body.length ?? 0
    if (bytes >= PORTION_BYTES) break
  }
  return portion
}

function contentsOf(revisions: readonly FoundRevision[], { contents }: PortionOptions) {
  return contents ? revisions.flatMap((each) => (each.found ? wantedAttachments(each.document) : [])) : []
}
