/**
 * Decides a batch of edits against one state of the database: the new revisions, and every row that changes with them. It
 * reads all records in one go and writes nothing.
 */
import assert from 'node:assert/strict'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { decide, type Edit, parentRevision, type Written } from '../../document/decide.ts'
import { generationOf, type RevisionId } from '../../document/ids.ts'
import { conflict, notFound } from '../../document/request-error.ts'
import {
  type AttachmentContent,
  HashedBody,
  type HashedRevision,
  hashRevision,
  type RevisionContent,
} from '../../document/revisions/new-revision.ts'
import { TimeSlice } from '../../runtime/clock.ts'
import type { RankTree } from '../../storage/rank-tree/rank-tree.ts'
import { operationCount } from '../../storage/rows/packed-rows.ts'
import type { Changes, Snapshot } from '../../storage/store.ts'
import {
  decodeLocal,
  encodeLocal,
  type LocalDocument,
  localCount,
  localRevision,
  type WholeRecord,
  wholeRecords,
} from '../layout/document-record.ts'
import { type DatabaseState, documentKey, localKey } from '../layout/keys.ts'
import { bodySizes } from '../layout/read-bodies.ts'
import { NO_ATTACHMENTS, type StoredBody } from '../layout/stored-body.ts'
import { DocumentChanges, type ExpectedChanges } from './document-changes.ts'
import type { DocumentEdit, EditOutcome, LocalEdit, NewRevisionEdit } from './edit.ts'

export interface BatchPlan {
  readonly changes: Changes
  readonly state: DatabaseState
  /** For each request the outcomes of its edits. */
  readonly outcomes: readonly EditOutcome[][]
  /** The ids of the documents that change; omitted where none does. */
  readonly written?: readonly string[]
  /** The numbers of attachments that new revisions refer to. */
  readonly attachments: readonly number[]
  /** What is stored of their contents. */
  readonly contents?: readonly Uint8Array[]
}

export async function planBatch(
  snapshot: Snapshot,
  state: DatabaseState,
  requests: readonly (readonly DocumentEdit[])[],
  ranks: RankTree,
): Promise<BatchPlan> {
  const documents = await readDocuments(snapshot, requests)
  const localIds = localIdsIn(requests)
  const locals = localIds.size > 0 ? await readLocals(snapshot, localIds) : NO_LOCALS
  const batch = new EditBatch(state, documents, locals, expectedChanges(requests))
  const outcomes: EditOutcome[][] = []
  for (const request of requests) outcomes.push(await batch.apply(request))
  const unmeasured = batch.unmeasured()
  if (unmeasured.length > 0) await measure(snapshot, unmeasured)
  const changes = await batch.changes()
  await changes.finish(snapshot, ranks)
  // Nothing changes: a conflict costs no commit and wakes no feed.
  if (operationCount(changes) === 0) return { changes, state, outcomes, attachments: [] }
  const { written } = batch
  return {
    changes,
    state: batch.state,
    outcomes,
    attachments: batch.attachments,
    contents: batch.contents,
    ...(written.length > 0 && { written }),
  }
}

/** A record that the batch creates. */
type NewRecord = Mutable<WholeRecord>

type Mutable<T> = { -readonly [Name in keyof T]: T[Name] }

interface WorkingLocal {
  document: LocalDocument | undefined
  isChanged: boolean
}

/** A document that the batch may change. */
class WorkingDocument {
  readonly id: string
  readonly key: Buffer
  /** As it was before the batch. */
  before: WholeRecord | undefined
  /** As it is after the batch; undefined until an edit changes it. */
  after: NewRecord | undefined
  /** The number of the request that changed it last: all edits of a request to one document are one change. */
  changedBy = 0

  constructor(id: string) {
    this.id = id
    this.key = documentKey(id)
  }
}

class EditBatch {
  /** A copy that advances with each edit. */
  readonly state: Mutable<DatabaseState>
  readonly #documents: ReadonlyMap<string, WorkingDocument>
  /** Those that the batch changes, in the order of their first edit. */
  readonly #changed: WorkingDocument[] = []
  readonly #locals: ReadonlyMap<string, WorkingLocal>
  readonly #changes: DocumentChanges
  /** The numbers of attachments that new revisions refer to. */
  readonly attachments: number[] = []
  /** What is stored of their contents. */
  readonly contents: Uint8Array[] = []
  #request = 0

  constructor(
    state: DatabaseState,
    documents: ReadonlyMap<string, WorkingDocument>,
    locals: ReadonlyMap<string, WorkingLocal>,
    expected: ExpectedChanges,
  ) {
    this.state = { ...state }
    this.#documents = documents
    this.#locals = locals
    this.#changes = new DocumentChanges(expected)
  }

  /** Applies the edits of one request in order, each to the result of those before. Yields to the event loop now and then. */
  async apply(request: readonly DocumentEdit[]): Promise<EditOutcome[]> {
    this.#request++
    const changed: WorkingDocument[] = []
    const outcomes: EditOutcome[] = []
    let begun = performance.now()
    for (const edit of request) {
      if (edit.kind === 'local') outcomes.push(this.#applyLocal(edit))
      else outcomes.push(this.#applyDocument(edit, changed, isLarge(edit) ? await this.#hash(edit) : undefined))
      if (outcomes.length % EDITS_A_CLOCK_CHECK !== 0 || performance.now() - begun < TURN_MS) continue
      await nextTurn()
      begun = performance.now()
    }
    // A request gives a document one sequence, however many of its revisions it writes.
    for (const { after } of changed) if (after) after.sequence = ++this.state.updateSequence
    return outcomes
  }

  /** The ids of the documents changed so far. */
  get written(): readonly string[] {
    return this.#changed.map(({ id }) => id)
  }

  /** Records whose new winner is an older revision. Its size must be read: a record has that of its last winner only. */
  unmeasured(): NewRecord[] {
    const found: NewRecord[] = []
    for (const { after } of this.#changed) if (after?.bodyBytes === UNMEASURED) found.push(after)
    return found
  }

  /** The rows that change: for each document from its state before the batch to its last one. */
  async changes(): Promise<DocumentChanges> {
    const changes = this.#changes
    const slice = new TimeSlice()
    for (const { id, key, before, after } of this.#changed) {
      if (!after) continue
      after.hasOldBodies = after.tree.hasInnerBodies()
      changes.replace(id, before, after, key)
      if (slice.isOver) await slice.pause()
    }
    Object.assign(this.state, changes.counted(this.state))
    for (const [id, { document, isChanged }] of this.#locals) {
      if (!isChanged) continue
      if (document) changes.puts.push([localKey(id), encodeLocal(document)])
      else changes.deletes.push(localKey(id))
    }
    return changes
  }

  /** The id of a revision with a large body, hashed in time slices. */
  async #hash(edit: NewRevisionEdit): Promise<HashedRevision | undefined> {
    const document = this.#documents.get(edit.id)
    const content = contentOf(edit, undefined)
    const parent = parentRevision((document?.after ?? document?.before)?.tree, { ...edit, content })
    return parent === 'conflict' ? undefined : hashRevision(parent, content, nextTurn)
  }

  #applyDocument(edit: BodyEdit, changed: WorkingDocument[], hashed: HashedRevision | undefined): EditOutcome {
    const document = this.#documents.get(edit.id)
    assert(document, 'Every document of the batch was read.')
    const current = document.after ?? document.before
    const decision = decide(current?.tree, decidable(edit, this.state.nextBody, hashed), this.state.revisionLimit)
    if (decision.outcome === 'conflict') return { outcome: 'refused', error: conflict() }
    if (decision.outcome === 'written') {
      // Its attachments were missing when it was prepared, and the conflict that would have refused it is gone.
      if (edit.refusal && decision.storesBody) return { outcome: 'refused', error: edit.refusal }
      if (!document.after) this.#changed.push(document)
      document.after = this.#recordOf(decision, current, edit)
      if (document.changedBy !== this.#request) changed.push(document)
      document.changedBy = this.#request
    }
    return { outcome: 'written', revision: decision.revision }
  }

  #recordOf(decision: Written, current: WholeRecord | undefined, edit: BodyEdit): NewRecord {
    const { tree, winner, storesBody, droppedBodies } = decision
    const number = this.state.nextBody
    if (storesBody) this.#storeBody(number, bodyOf(edit, decision.revision), edit)
    if (droppedBodies.length > 0) this.#changes.dropBodies(droppedBodies)
    return {
      sequence: current?.sequence ?? 0,
      winner: winner.revision,
      deleted: winner.status === 'deleted',
      body: winner.body,
      bodyBytes:
        winner.body === current?.body ? current.bodyBytes : (this.#changes.sizeOfNewBody(winner.body) ?? UNMEASURED),
      // Set later from the final tree: it takes a pass over all branches.
      hasOldBodies: false,
      hasAttachments: (current?.hasAttachments ?? false) || (edit.attachments?.length ?? 0) > 0,
      tree,
    }
  }

  #storeBody(number: number, body: StoredBody, { attachments = [] }: BodyEdit): void {
    this.#changes.putBody(number, body)
    for (const attachment of attachments) {
      for (const put of attachment.puts) {
        this.#changes.puts.push(put)
        if (!attachment.sharesPuts) this.contents.push(put[1])
      }
      this.attachments.push(attachment.number)
    }
    this.state.nextBody = number + 1
  }

  #applyLocal(edit: LocalEdit): EditOutcome {
    const local = this.#locals.get(edit.id)!
    const current = local.document
    if (edit.deleted && !current) return { outcome: 'refused', error: notFound('missing') }
    if (!isCurrentLocal(current, edit.parent)) return { outcome: 'refused', error: conflict() }
    const count = edit.deleted ? 0 : (current?.count ?? 0) + 1
    local.document = edit.deleted ? undefined : { count, text: edit.body }
    local.isChanged = true
    return { outcome: 'written', revision: localRevision(count) }
  }
}

/** How long a large batch may block the event loop. */
const TURN_MS = 8
/** Edits between two readings of the clock. */
const EDITS_A_CLOCK_CHECK = 8

/** In place of the size of a body until it is known. */
const UNMEASURED = -1

/** A creation names no revision, or that of a deleted document. */
function isCurrentLocal(current: LocalDocument | undefined, parent: LocalEdit['parent']): boolean {
  if (parent === 'any') return true
  const named = parent === undefined ? undefined : localCount(parent)
  return current ? named === current.count : parent === undefined || named === 0
}

/** An edit of a document that has revisions with bodies. */
type BodyEdit = Exclude<DocumentEdit, LocalEdit>

function bodyOf({ body, attachments = [] }: BodyEdit, revision: RevisionId): StoredBody {
  if (attachments.length === 0) return { text: body, attachments: NO_ATTACHMENTS }
  const records = attachments.map(({ puts: _, sharesPuts: __, revpos, ...attachment }) => ({
    ...attachment,
    revpos: revpos ?? generationOf(revision),
  }))
  return { text: body, attachments: records }
}

function decidable(edit: BodyEdit, body: number, hashed: HashedRevision | undefined): Edit {
  if (edit.kind === 'replicated') return { kind: 'replicated', path: edit.path, deleted: edit.deleted, body }
  return { kind: edit.kind, parent: edit.parent, content: contentOf(edit, hashed), body }
}

function contentOf(edit: NewRevisionEdit, hashed: HashedRevision | undefined): RevisionContent {
  return { deleted: edit.deleted, term: edit.term, attachments: hashedAttachments(edit), hashed }
}

/** A larger body takes more than a millisecond to hash. */
const LARGE_TERM_BYTES = 512 * 1024

function isLarge(edit: BodyEdit): edit is NewRevisionEdit {
  if (edit.kind === 'replicated' || edit.term instanceof HashedBody) return false
  return edit.term.length > LARGE_TERM_BYTES
}

function hashedAttachments({ attachments }: BodyEdit): readonly AttachmentContent[] {
  if (!attachments || attachments.length === 0) return NO_HASHED_ATTACHMENTS
  return attachments.map(({ name, contentType, md5 }) => ({ name, contentType, md5: Buffer.from(md5, 'base64') }))
}

const NO_HASHED_ATTACHMENTS: readonly AttachmentContent[] = []

async function readDocuments(
  snapshot: Snapshot,
  requests: readonly (readonly DocumentEdit[])[],
): Promise<Map<string, WorkingDocument>> {
  const documents = new Map<string, WorkingDocument>()
  for (const edits of requests) {
    for (const { kind, id } of edits) {
      if (kind !== 'local' && !documents.has(id)) documents.set(id, new WorkingDocument(id))
    }
  }
  const all = [...documents.values()]
  const records = await wholeRecords(
    snapshot,
    all.map(({ id }) => id),
    all.map(({ key }) => key),
  )
  for (let i = 0; i < all.length; i++) all[i]!.before = records[i]
  return documents
}

const NO_LOCALS: ReadonlyMap<string, WorkingLocal> = new Map()

function localIdsIn(requests: readonly (readonly DocumentEdit[])[]): Set<string> {
  const ids = new Set<string>()
  for (const edits of requests) for (const { kind, id } of edits) if (kind === 'local') ids.add(id)
  return ids
}

async function readLocals(snapshot: Snapshot, ids: ReadonlySet<string>): Promise<Map<string, WorkingLocal>> {
  const found = await snapshot.getMany([...ids].map(localKey))
  return new Map([...ids].map((id, i) => [id, { document: found[i] && decodeLocal(found[i]), isChanged: false }]))
}

/** Reads the sizes of the winners' bodies. */
async function measure(snapshot: Snapshot, records: readonly NewRecord[]): Promise<void> {
  const sizes = await bodySizes(
    snapshot,
    records.map(({ body }) => body),
  )
  for (const [i, record] of records.entries()) record.bodyBytes = sizes[i]!
}

function expectedChanges(requests: readonly (readonly DocumentEdit[])[]): ExpectedChanges {
  let documents = 0
  let bodyBytes = 0
  for (const edits of requests) {
    documents += edits.length
    for (const { body } of edits) bodyBytes += body.length
  }
  return { documents, bodyBytes }
}
