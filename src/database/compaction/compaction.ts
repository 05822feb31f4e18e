/**
 * Compaction of a database. Bodies of revisions that are not leaves are removed, long histories are cut to the limit,
 * attachments without references are removed, and the store is rewritten without the free space. Readers and writers
 * continue. Documents are trimmed through the write queue, a few at a time.
 */
import { droppedBodies, stem, withLeafBodiesOnly } from '../../document/tree/tree-pruning.ts'
import type { LeaseProof } from '../../storage/leases/work-leases.ts'
import type { RankTree } from '../../storage/rank-tree/rank-tree.ts'
import type { KeyRange, Snapshot, Store } from '../../storage/store.ts'
import { type AttachmentStore, attachmentRange } from '../attachments/attachment-store.ts'
import { readRecords, recordHasHistory } from '../layout/document-record.ts'
import { afterPrefix, type DatabaseState, DOCUMENT_PREFIX, idOfDocumentKey, PURGES, purgeKey } from '../layout/keys.ts'
import { DocumentChanges } from '../writing/document-changes.ts'
import type { ExclusivePlan, WriteQueue } from '../writing/write-queue.ts'
import { AttachmentReferences } from './attachment-references.ts'

/** Told how much of the work is done, in documents, and how many there were at the start. */
export type CompactionProgress = (done: number, total: number) => void

const DOCUMENTS_A_TURN = 200

/** A turn ends with the document that reaches this limit, since a commit takes a limited number of operations. */
const BODIES_A_TURN = 10_000

/** The parts of a database that compaction works on. */
export interface CompactedDatabase {
  readonly store: Store
  readonly queue: WriteQueue
  readonly ranks: RankTree
  readonly attachments: AttachmentStore
}

export interface CompactionRun {
  /** Documents at the start. */
  readonly total: number
  readonly signal: AbortSignal
  readonly onProgress: CompactionProgress
  /** Where other servers may compact too. */
  readonly lease: LeaseProof | undefined
}

/** The first part of the work counts as half of it: progress is for people. */
export async function compactDatabase(
  database: CompactedDatabase,
  { total, signal, onProgress, lease }: CompactionRun,
): Promise<void> {
  const { store, queue, ranks } = database
  let looked = 0
  for await (const ids of untrimmed(store, (rows) => {
    looked += rows
    onProgress(Math.floor(Math.min(looked, total) / 2), total)
  })) {
    for (let rest: readonly string[] = ids; rest.length > 0; ) {
      signal.throwIfAborted()
      const done = await queue.exclusive((snapshot, state) => planTrimming(snapshot, state, rest, ranks), lease)
      rest = rest.slice(done)
    }
  }
  while (await queue.exclusive(planForgetting, lease)) signal.throwIfAborted()
  await removeAttachments(database, lease)
  await store.compact({
    signal,
    onProgress: (done) => onProgress(Math.floor((total * (1 + done)) / 2), total),
  })
  onProgress(total, total)
}

/** Ids of documents that may hold more than they need, some at a time, from states that are not held for long. */
async function* untrimmed(store: Store, onRows: (rows: number) => void): AsyncGenerator<string[]> {
  let ids: string[] = []
  let rest: KeyRange | undefined = { from: DOCUMENT_PREFIX, to: afterPrefix(DOCUMENT_PREFIX) }
  while (rest) {
    using snapshot = store.snapshot()
    const page = await snapshot.page(rest)
    for (let row = 0; row < page.length; row++) {
      if (recordHasHistory(page.value(row))) ids.push(idOfDocumentKey(page.key(row)))
    }
    rest = page.next
    snapshot.release()
    onRows(page.length)
    if (ids.length >= DOCUMENTS_A_TURN || (!rest && ids.length > 0)) {
      yield ids
      ids = []
    }
  }
}

/** Drops notes of purges that are older than the limit; resolves to whether there are more of them. */
async function planForgetting(snapshot: Snapshot, state: DatabaseState): Promise<ExclusivePlan<boolean>> {
  const kept = purgeKey(Math.max(0, state.purgeSequence - state.purgeLimit) + 1)
  const page = await snapshot.page({ from: PURGES.from, to: kept })
  const deletes = Array.from({ length: page.length }, (_, row) => Buffer.from(page.key(row)))
  return { changes: { deletes }, state, result: page.next !== undefined }
}

/** Removes the bytes of attachments that no revision refers to. */
async function removeAttachments(database: CompactedDatabase, lease: LeaseProof | undefined): Promise<void> {
  const { store, queue, attachments } = database
  if (!store.sharing) return attachments.removeUnreferenced(() => AttachmentReferences.of(store), lease)
  // Revisions of other servers may refer to them by now: each commit that removes some reads what changed before it.
  const references = await AttachmentReferences.of(store)
  for await (const numbers of attachments.removableNumbers()) {
    const plan = async (snapshot: Snapshot, state: DatabaseState): Promise<ExclusivePlan<void>> => {
      await references.readChanges(snapshot, state)
      const unreferenced = numbers.filter((number) => !references.has(number) && !attachments.isUsed(number))
      return { changes: { clears: unreferenced.map(attachmentRange) }, state, result: undefined }
    }
    await queue.exclusive(plan, lease)
  }
}

/** Trims the first of the documents; resolves to how many it got through. */
async function planTrimming(
  snapshot: Snapshot,
  state: DatabaseState,
  ids: readonly string[],
  ranks: RankTree,
): Promise<ExclusivePlan<number>> {
  const changes = new DocumentChanges()
  let done = 0
  for (const { id, record } of await readRecords(snapshot, ids)) {
    done++
    const tree = record && withLeafBodiesOnly(stem(record.tree, state.revisionLimit))
    if (!tree || tree === record.tree) continue
    changes.dropBodies(droppedBodies(record.tree, tree))
    // Nothing of it can be seen, so its sequence stays.
    changes.replace(id, record, { ...record, hasOldBodies: false, tree })
    if (changes.deletes.length >= BODIES_A_TURN) break
  }
  await changes.finish(snapshot, ranks)
  return { changes, state, result: done }
}
