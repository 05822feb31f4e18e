/**
 * Decides a batch of edits against one state of the database: which revisions there will be, and every row of the store
 * that changes with them. Reads all records in one go; writes nothing.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { decide, type Edit, type Written } from '../document/decide.ts'
import type { AttachmentContent } from '../document/new-revision.ts'
import { conflict, notFound } from '../document/request-error.ts'
import { generationOf, type RevisionId } from '../document/revision-id.ts'
import type { RankTree } from '../storage/rank-tree/rank-tree.ts'
import type { Changes, Snapshot } from '../storage/store.ts'
import { NO_ATTACHMENTS } from './attachment-record.ts'
import type { DatabaseState } from './database-state.ts'
import { DocumentChanges, type WholeRecord } from './document-changes.ts'
import type { DocumentEdit, EditOutcome, LocalEdit } from './edit.ts'
import { localKey } from './keys.ts'
import { decodeLocal, encodeLocal, type LocalDocument, localCount, localRevision } from './local-document.ts'
import { bodySizes, readRecords } from './read-records.ts'
import { type StoredBody, sizeOfBody } from './stored-body.ts'

export interface BatchPlan {
  readonly changes: Changes
  readonly state: DatabaseState
  /** For each request the outcomes of its edits. */
  readonly outcomes: readonly EditOutcome[][]
  /** The ids of the documents that change; left out where none does. */
  readonly written?: readonly string[]
}

export async function planBatch(
  snapshot: Snapshot,
  state: DatabaseState,
  requests: readonly (readonly DocumentEdit[])[],
  ranks: RankTree,
): Promise<BatchPlan> {
  const edits = requests.flat()
  const [documents, locals] = await Promise.all([readDocuments(snapshot, edits), readLocals(snapshot, edits)])
  const batch = new EditBatch(state, documents, locals)
  const outcomes: EditOutcome[][] = []
  for (const request of requests) outcomes.push(await batch.apply(request))
  await batch.measureWinners(snapshot)
  const changes = batch.changes()
  await changes.finish(snapshot, ranks)
  const { written } = batch
  return { changes, state: batch.state, outcomes, ...(written.length > 0 && { written }) }
}

/** A record of the batch's own making. */
type NewRecord = Mutable<WholeRecord>

type Mutable<T> = { -readonly [Name in keyof T]: T[Name] }

interface WorkingLocal {
  document: LocalDocument | undefined
  isChanged: boolean
}

class EditBatch {
  /** Its own copy, which moves on with each edit. */
  readonly state: Mutable<DatabaseState>
  /** As they were before the batch. */
  readonly #documents: ReadonlyMap<string, WholeRecord | undefined>
  /** As the batch leaves those that it changes. */
  readonly #newRecords = new Map<string, NewRecord>()
  readonly #locals: ReadonlyMap<string, WorkingLocal>
  readonly #changes = new DocumentChanges()
  /** Bytes of the bodies that the batch brings. */
  readonly #newBytes = new Map<number, number>()

  constructor(
    state: DatabaseState,
    documents: ReadonlyMap<string, WholeRecord | undefined>,
    locals: ReadonlyMap<string, WorkingLocal>,
  ) {
    this.state = { ...state }
    this.#documents = documents
    this.#locals = locals
  }

  /** The edits of one request, in order: a later one finds what an earlier one left. Lets others go on meanwhile. */
  async apply(request: readonly DocumentEdit[]): Promise<EditOutcome[]> {
    const changed = new Set<string>()
    const outcomes: EditOutcome[] = []
    let begun = performance.now()
    for (const edit of request) {
      outcomes.push(edit.kind === 'local' ? this.#applyLocal(edit) : this.#applyDocument(edit, changed))
      if (outcomes.length % EDITS_A_LOOK !== 0 || performance.now() - begun < TURN_MS) continue
      await nextTurn()
      begun = performance.now()
    }
    // One sequence a document and request, however many of its revisions came.
    for (const id of changed) this.#newRecords.get(id)!.sequence = ++this.state.updateSequence
    return outcomes
  }

  /** The ids of the documents that are changed so far. */
  get written(): readonly string[] {
    return [...this.#newRecords.keys()]
  }

  /** A leaf that was there before and wins now is measured where it lies: a record knows the size of its winner only. */
  async measureWinners(snapshot: Snapshot): Promise<void> {
    const risen = [...this.#newRecords.values()].filter(({ bodyBytes }) => bodyBytes === UNMEASURED)
    if (risen.length === 0) return
    const sizes = await bodySizes(
      snapshot,
      risen.map(({ body }) => body),
    )
    for (const [i, record] of risen.entries()) record.bodyBytes = sizes[i]!
  }

  /** The rows that change. Only the last state of a document counts, also where several requests changed it. */
  changes(): DocumentChanges {
    const changes = this.#changes
    for (const [id, after] of this.#newRecords) {
      after.hasOldBodies = after.tree.hasInnerBodies()
      changes.replace(id, this.#documents.get(id), after)
    }
    Object.assign(this.state, changes.counted(this.state))
    for (const [id, { document, isChanged }] of this.#locals) {
      if (!isChanged) continue
      if (document) changes.puts.push([localKey(id), encodeLocal(document)])
      else changes.deletes.push(localKey(id))
    }
    return changes
  }

  #applyDocument(edit: BodyEdit, changed: Set<string>): EditOutcome {
    const { id } = edit
    const current = this.#newRecords.get(id) ?? this.#documents.get(id)
    const decision = decide(current?.tree, decidable(edit, this.state.nextBody), this.state.revisionLimit)
    if (decision.outcome === 'conflict') return { outcome: 'refused', error: conflict() }
    if (decision.outcome === 'written') {
      this.#newRecords.set(id, this.#recordOf(decision, current, edit))
      changed.add(id)
    }
    return { outcome: 'written', revision: decision.revision }
  }

  #recordOf(decision: Written, current: WholeRecord | undefined, edit: BodyEdit): NewRecord {
    const { tree, winner, storesBody, droppedBodies } = decision
    const number = this.state.nextBody
    if (storesBody) this.#storeBody(number, bodyOf(edit, decision.revision), edit)
    this.#changes.dropBodies(droppedBodies)
    return {
      sequence: current?.sequence ?? 0,
      winner: winner.revision,
      deleted: winner.status === 'deleted',
      body: winner.body,
      bodyBytes: winner.body === current?.body ? current.bodyBytes : (this.#newBytes.get(winner.body) ?? UNMEASURED),
      // Asked of the last tree only: it takes a look at each branch.
      hasOldBodies: false,
      hasAttachments: (current?.hasAttachments ?? false) || (edit.attachments?.length ?? 0) > 0,
      tree,
    }
  }

  #storeBody(number: number, body: StoredBody, { attachments = [] }: BodyEdit): void {
    this.#changes.putBody(number, body)
    for (const { puts } of attachments) this.#changes.puts.push(...puts)
    this.#newBytes.set(number, sizeOfBody(body))
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

/** So long a large batch keeps everybody else waiting at most. */
const TURN_MS = 8
/** The clock is looked at after so many. */
const EDITS_A_LOOK = 8

/** Stands for the size of a body until it is known. */
const UNMEASURED = -1

/** To create one, no revision is named, or that of a deleted one. */
function isCurrentLocal(current: LocalDocument | undefined, parent: LocalEdit['parent']): boolean {
  if (parent === 'any') return true
  const named = parent === undefined ? undefined : localCount(parent)
  return current ? named === current.count : parent === undefined || named === 0
}

/** An edit of a document that has revisions with bodies. */
type BodyEdit = Exclude<DocumentEdit, LocalEdit>

function bodyOf({ body, attachments = [] }: BodyEdit, revision: RevisionId): StoredBody {
  if (attachments.length === 0) return { text: body, attachments: NO_ATTACHMENTS }
  const records = attachments.map(({ puts: _, revpos, ...attachment }) => ({
    ...attachment,
    revpos: revpos ?? generationOf(revision),
  }))
  return { text: body, attachments: records }
}

function decidable(edit: BodyEdit, body: number): Edit {
  if (edit.kind === 'replicated') return { kind: 'replicated', path: edit.path, deleted: edit.deleted, body }
  const content = { deleted: edit.deleted, term: edit.term, attachments: hashedAttachments(edit) }
  return { kind: edit.kind, parent: edit.parent, content, body }
}

function hashedAttachments({ attachments }: BodyEdit): readonly AttachmentContent[] {
  if (!attachments || attachments.length === 0) return NOTHING_HASHED
  return attachments.map(({ name, contentType, md5 }) => ({ name, contentType, md5: Buffer.from(md5, 'base64') }))
}

const NOTHING_HASHED: readonly AttachmentContent[] = []

async function readDocuments(
  snapshot: Snapshot,
  edits: readonly DocumentEdit[],
): Promise<Map<string, WholeRecord | undefined>> {
  const found = await readRecords(
    snapshot,
    idsOf(edits, (edit) => edit.kind !== 'local'),
  )
  return new Map(found.map(({ id, record }) => [id, record]))
}

async function readLocals(snapshot: Snapshot, edits: readonly DocumentEdit[]): Promise<Map<string, WorkingLocal>> {
  const ids = idsOf(edits, (edit) => edit.kind === 'local')
  if (ids.length === 0) return new Map()
  const found = await snapshot.getMany(ids.map(localKey))
  return new Map(ids.map((id, i) => [id, { document: found[i] && decodeLocal(found[i]), isChanged: false }]))
}

function idsOf(edits: readonly DocumentEdit[], chosen: (edit: DocumentEdit) => boolean): string[] {
  return [...new Set(edits.filter(chosen).map(({ id }) => id))]
}
