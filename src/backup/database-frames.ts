/**
 * A database as frames of a backup: what changed after a sequence, from one snapshot. Changed documents come in the order of
 * their last change, with all leaves, their histories and the stored bytes of their attachments. So a reader that has everything
 * up to some document can continue after it later, from another snapshot.
 */
import { createHash, type Hash } from 'node:crypto'
import { slicesOf } from '../database/attachments/chunk-writer.ts'
import type { DatabaseView } from '../database/database-view.ts'
import { decodeChange } from '../database/layout/change-row.ts'
import { decodeLocal, localRevision } from '../database/layout/document-record.ts'
import {
  afterPrefix,
  attachmentKey,
  CHANGE_PREFIX,
  changeKey,
  type DatabaseState,
  idOfLocalKey,
  LOCAL_PREFIX,
  PURGES,
  purgeKey,
} from '../database/layout/keys.ts'
import type { AttachmentRecord } from '../database/layout/stored-body.ts'
import { documentText } from '../database/reading/document-text.ts'
import type { RevisionNode } from '../document/tree/branch.ts'
import { pathOfAncestry } from '../document/tree/branch.ts'
import type { RevisionTree } from '../document/tree/revision-tree.ts'
import { quoteText } from '../encoding/json/json-text-splice.ts'
import type { KeyRange, Page } from '../storage/store.ts'
import { type FrameKind, framePieces, MAGIC } from './frame.ts'

/** Where an earlier backup of the same database ended. */
export interface BackupStart {
  readonly since: number
  readonly purgeSince: number
}

/** The payload of the frame `database`. */
export interface DatabaseHead {
  readonly name: string
  readonly uuid: string
  readonly partitioned: boolean
  readonly since: number
  readonly until: number
  readonly purge_since: number
  readonly purge_until: number
  readonly revs_limit: number
  readonly purged_infos_limit: number
  /** Of the whole database, live ones and tombstones. */
  readonly doc_count: number
  readonly doc_del_count: number
  readonly made: string
  readonly version: string
}

/** The payload of the frame `end`. */
export interface DatabaseEnd {
  readonly documents: number
  readonly revisions: number
  readonly contents: number
  readonly purges: number
  readonly locals: number
  /** Of everything before this frame, the magic line included. */
  readonly bytes: number
  readonly sha256: string
}

/** The payload of the frame `position`: all documents whose last change is not after this sequence come before the frame. */
export interface Position {
  readonly seq: number
}

/** The payload of the frame `content`, which describes the frames `bytes` that follow it. */
export interface ContentHead {
  /** Of the document. */
  readonly id: string
  /** How revisions of the same document refer to it. */
  readonly content: number
  readonly digest: string
  readonly length: number
  readonly encoding?: 'gzip'
  /** Of the bytes that follow. */
  readonly stored_length: number
  readonly stored_digest: string
  readonly unpacked_length?: number
}

/** Whether all purges after the start are still recorded: without them purged documents would come back. */
export async function remembersPurges(view: DatabaseView, state: DatabaseState, purgeSince: number): Promise<boolean> {
  if (purgeSince >= state.purgeSequence) return true
  const range = { from: purgeKey(purgeSince + 1), to: purgeKey(purgeSince + 2) }
  return (await view.snapshot.page(range, { rows: 1, keysOnly: true })).length === 1
}

/** All frames, as pieces of a stream. */
export async function* databaseFrames(view: DatabaseView, head: DatabaseHead): AsyncGenerator<Buffer> {
  const output = new FrameOutput()
  output.addJson('database', head)
  const security = await view.security()
  if (security) output.add('security', security)
  let purges = 0
  for await (const page of pages(view, { from: purgeKey(head.purge_since + 1), to: PURGES.to })) {
    for (let row = 0; row < page.length; row++) output.add('purged', page.value(row))
    purges += page.length
    yield* output.take()
  }
  const counts = { documents: 0, revisions: 0, contents: 0 }
  for await (const documents of changedDocuments(view, head.since)) {
    for (const document of documents) {
      counts.documents++
      const sent = new Set<number>()
      for (const { node, attachments, text } of document.leaves) {
        for (const attachment of attachments) {
          if (sent.has(attachment.number)) continue
          sent.add(attachment.number)
          counts.contents++
          output.addJson('content', contentHead(document.id, attachment))
          yield* contentFrames(view, attachment, output)
        }
        counts.revisions++
        output.add('revision', revisionText(document, node, text, attachments))
      }
      if (output.isFull) yield* output.take()
    }
    const position: Position = { seq: documents.at(-1)?.sequence ?? head.since }
    output.addJson('position', position)
    yield* output.take()
  }
  let locals = 0
  for await (const page of pages(view, { from: LOCAL_PREFIX, to: afterPrefix(LOCAL_PREFIX) })) {
    for (let row = 0; row < page.length; row++) output.add('local', localText(page.key(row), page.value(row)))
    locals += page.length
    yield* output.take()
  }
  output.addEnd({ ...counts, purges, locals })
  yield* output.take()
}

/** Collects frames into blocks and keeps the digest of all of them. */
class FrameOutput {
  readonly #hash: Hash = createHash('sha256')
  #pieces: Buffer[] = []
  #pendingBytes = 0
  #bytes = 0

  constructor() {
    this.#push(MAGIC)
  }

  get isFull(): boolean {
    return this.#pendingBytes >= BLOCK_BYTES
  }

  add(kind: FrameKind, payload: Buffer): void {
    for (const piece of framePieces(kind, payload)) this.#push(piece)
  }

  addJson(kind: FrameKind, value: unknown): void {
    this.add(kind, Buffer.from(JSON.stringify(value)))
  }

  addEnd(counts: Omit<DatabaseEnd, 'bytes' | 'sha256'>): void {
    this.#hashPending()
    const end: DatabaseEnd = { ...counts, bytes: this.#bytes, sha256: this.#hash.copy().digest('hex') }
    this.addJson('end', end)
  }

  /** What is pending, as one block. */
  *take(): Generator<Buffer> {
    if (this.#pendingBytes === 0) return
    this.#hashPending()
    const block = this.#pieces.length === 1 ? this.#pieces[0]! : Buffer.concat(this.#pieces, this.#pendingBytes)
    this.#pieces = []
    this.#hashed = 0
    this.#pendingBytes = 0
    yield block
  }

  /** How many of the pending pieces are in the digest. */
  #hashed = 0

  #hashPending(): void {
    for (; this.#hashed < this.#pieces.length; this.#hashed++) this.#hash.update(this.#pieces[this.#hashed]!)
  }

  #push(piece: Buffer): void {
    this.#pieces.push(piece)
    this.#pendingBytes += piece.length
    this.#bytes += piece.length
  }
}

const BLOCK_BYTES = 256 * 1024

interface ChangedDocument {
  readonly id: string
  readonly sequence: number
  readonly tree: RevisionTree
  readonly leaves: readonly Leaf[]
}

interface Leaf {
  readonly node: RevisionNode
  readonly text: Buffer
  readonly attachments: readonly AttachmentRecord[]
}

/** The size of bodies that are held in memory together, about. */
const PORTION_BYTES = 1024 * 1024

async function* changedDocuments(view: DatabaseView, since: number): AsyncGenerator<ChangedDocument[]> {
  for await (const page of pages(view, { from: changeKey(since + 1), to: afterPrefix(CHANGE_PREFIX) })) {
    const ids = Array.from({ length: page.length }, (_, row) => decodeChange(page.value(row)).id)
    const records = await view.records(ids)
    for (let first = 0; first < records.length; ) {
      let bytes = 0
      let end = first
      const chosen: { id: string; sequence: number; tree: RevisionTree; nodes: RevisionNode[] }[] = []
      for (; end < records.length && bytes < PORTION_BYTES; end++) {
        const { id, record } = records[end]!
        if (!record) throw new Error(`The document '${id}' has a change and no record.`)
        const nodes = [...record.tree.leaves()].filter(({ status }) => status !== 'missing')
        bytes += record.bodyBytes * nodes.length
        chosen.push({ id, sequence: record.sequence, tree: record.tree, nodes })
      }
      const bodies = await view.bodies(chosen.flatMap(({ nodes }) => nodes.map(({ body }) => body)))
      let next = 0
      yield chosen.map(({ id, sequence, tree, nodes }) => ({
        id,
        sequence,
        tree,
        leaves: nodes.map((node) => ({ node, ...bodies[next++]! })),
      }))
      first = end
    }
  }
}

async function* pages(view: DatabaseView, range: KeyRange): AsyncGenerator<Page> {
  for (let rest: KeyRange | undefined = range; rest; ) {
    const page: Page = await view.snapshot.page(rest)
    yield page
    rest = page.next
  }
}

function contentHead(id: string, attachment: AttachmentRecord): ContentHead {
  const { number, md5, length, encoding, storedLength, storedMd5, unpackedLength } = attachment
  return {
    id,
    content: number,
    digest: `md5-${md5}`,
    length,
    ...(encoding && { encoding }),
    stored_length: storedLength,
    stored_digest: `md5-${storedMd5}`,
    ...(unpackedLength !== undefined && { unpacked_length: unpackedLength }),
  }
}

/** Read from the same state as its document: compaction may have removed it since. */
async function* contentFrames(
  view: DatabaseView,
  { number, storedLength, name }: AttachmentRecord,
  output: FrameOutput,
): AsyncGenerator<Buffer> {
  for (const { chunk, end } of slicesOf(0, storedLength)) {
    const bytes = await view.snapshot.get(attachmentKey(number, chunk))
    if (bytes?.length !== end) throw new Error(`Chunk ${chunk} of the attachment '${name}' is not there.`)
    output.add('bytes', bytes)
    if (output.isFull) yield* output.take()
  }
}

/** As `_bulk_docs` takes it with `new_edits: false`, and which contents its attachments have. */
function revisionText(
  { id, tree }: ChangedDocument,
  node: RevisionNode,
  body: Buffer,
  attachments: readonly AttachmentRecord[],
): Buffer {
  const { revision } = node
  return documentText({
    id,
    revision,
    body,
    deleted: node.status === 'deleted',
    revisions: pathOfAncestry(tree.ancestry(revision)),
    ...(attachments.length > 0 && { attachments: attachmentsText(attachments) }),
  })
}

function attachmentsText(attachments: readonly AttachmentRecord[]): Buffer {
  const entries = attachments.map((attachment) => {
    const { name, contentType, revpos, number, md5, length, encoding, storedLength } = attachment
    const packed = encoding ? `,"encoding":"${encoding}","encoded_length":${storedLength}` : ''
    const known = `"content_type":${quoteText(contentType)},"revpos":${revpos},"digest":"md5-${md5}","length":${length}`
    return `${quoteText(name)}:{${known}${packed},"content":${number},"stub":true}`
  })
  return Buffer.from(`{${entries.join(',')}}`)
}

function localText(key: Buffer, value: Buffer): Buffer {
  const { count, text } = decodeLocal(value)
  return documentText({ id: idOfLocalKey(key), revision: localRevision(count), body: text })
}
