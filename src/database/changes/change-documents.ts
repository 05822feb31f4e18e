/** The documents of a feed with `include_docs`: the winners, tombstones too, as far as the reader may see them. */
import { conflicts } from '../../document/revisions/winner.ts'
import type { FieldProjection } from '../../selectors/field-projection.ts'
import type { AttachmentContents } from '../attachments/attachment-store.ts'
import type { DatabaseView } from '../database-view.ts'
import type { OpenedDocument } from '../reading/document-text.ts'
import { inlineText, stubText } from '../reading/document-text.ts'
import type { ChangeBlockWriter } from './change-block-writer.ts'
import type { FilteredChange } from './change-filter.ts'

export interface DocumentsInFeed {
  readonly conflicts: boolean
  readonly encodingInfo: boolean
  /** Where the contents of attachments are read from, if they are wanted. */
  readonly contents: AttachmentContents | undefined
  /** The fields that are shown; undefined for all. */
  readonly fields?: FieldProjection | undefined
}

/** Lines that were written, and of how many changes. Text in pieces is made while it is read. */
export interface WrittenLines {
  readonly text: Buffer | AsyncIterable<string | Buffer>
  readonly written: number
}

/** Documents are added to a block until it has so much. */
const BLOCK_BYTES = 64 * 1024

/** Bodies in memory at a time. */
const BODIES_AT_ONCE = 16

const NULL = Buffer.from('null')

/** Writes changes with their documents: as many as make a block, or one whose document comes in pieces. */
export async function writeDocuments(
  view: DatabaseView,
  passing: readonly FilteredChange[],
  wanted: DocumentsInFeed,
  writer: ChangeBlockWriter,
): Promise<WrittenLines> {
  let written = 0
  while (written < passing.length && writer.size < BLOCK_BYTES) {
    const some = passing.slice(written, written + BODIES_AT_ONCE)
    const documents = await openWinners(view, some, wanted)
    for (const [i, each] of some.entries()) {
      const document = documents[i]
      const { contents } = wanted
      const isLarge = contents !== undefined && document !== undefined && document.attachments.length > 0
      if (isLarge && written > 0) return { text: writer.take(), written }
      writer.beginLeaves(each.change, each.leaves)
      if (isLarge) return { text: inPieces(writer, each, document, contents, wanted), written: 1 }
      writer.document(document ? shownText(document, wanted) : NULL)
      writer.end(each.change.stored.sequence)
      written++
      if (writer.size >= BLOCK_BYTES) break
    }
  }
  return { text: writer.take(), written }
}

function shownText(document: OpenedDocument, wanted: DocumentsInFeed): Buffer {
  const text = stubText(document, wanted)
  return wanted.fields ? wanted.fields.project(text) : text
}

/** The line that was begun, with a document that is made while it is sent: contents may be of any size. */
function inPieces(
  writer: ChangeBlockWriter,
  { change }: FilteredChange,
  document: OpenedDocument,
  contents: AttachmentContents,
  { encodingInfo }: DocumentsInFeed,
): AsyncIterable<string | Buffer> {
  writer.document()
  const before = writer.take()
  writer.end(change.stored.sequence)
  const after = writer.take()
  async function* pieces() {
    yield before
    const release = await contents.keepAll(document.attachments)
    // A newer revision took its place, and compaction its contents: that change comes later.
    if (release === 'gone') yield NULL
    else {
      try {
        yield* inlineText(document, contents, { encodingInfo }).chunks()
      } finally {
        release()
      }
    }
    yield after
  }
  return pieces()
}

/** What the reader may see of the documents; undefined for what it may not. */
async function openWinners(
  view: DatabaseView,
  passing: readonly FilteredChange[],
  wanted: DocumentsInFeed,
): Promise<(OpenedDocument | undefined)[]> {
  const changes = passing.map(({ change }) => change)
  const bodies = await view.bodies(changes.map(({ body }) => body))
  const torn = wanted.conflicts ? changes.filter(({ leaves }) => leaves.length > 1) : []
  const records = torn.length > 0 ? await view.records(torn.map(({ id }) => id)) : []
  const trees = new Map(records.map(({ id, record }) => [id, record?.tree]))
  return changes.map(({ id, leaves, deleted }, i) => {
    const revision = leaves[0]!
    const { text: body, attachments } = bodies[i]!
    const tree = trees.get(id)
    const parts = { id, revision, body, deleted, conflicts: tree && conflicts(tree) }
    const document = { revision, deleted, parts, attachments, knownGeneration: 0 }
    return view.reading ? view.reading.readable(document) : document
  })
}
