/**
 * `_bulk_get` as replicators use it: JSON with one revision of each of many documents. The documents are opened together, small
 * attachments are read together, and one piece of the reply holds many documents.
 */
import type { Dialect } from '../../config/dialect.ts'
import { CHUNK_BYTES } from '../../database/attachments/chunk-writer.ts'
import type { Database } from '../../database/database.ts'
import type { AttachmentRecord } from '../../database/layout/stored-body.ts'
import type { OpenedDocument } from '../../database/reading/document-text.ts'
import { inlinePieces, inlineText, stubText } from '../../database/reading/document-text.ts'
import { type Kept, openKept } from '../../database/reading/open-kept.ts'
import { type AskedRevisions, type OpenedRevisions, openMany } from '../../database/reading/open-many.ts'
import { openRevisionPortions } from '../../database/reading/revision-portions.ts'
import { isLocalId, parseDocumentId, parseRevision } from '../../document/ids.ts'
import { notFound, RequestError } from '../../document/request-error.ts'
import { freeBytes } from '../../encoding/bytes/byte-sink.ts'
import { joinText, quoteText } from '../../encoding/json/json-text-splice.ts'
import { isObject } from '../../encoding/json/json-value.ts'
import { enclosed } from '../server/answer.ts'

/** The parameters of a request. */
export interface BulkReading {
  readonly database: Database
  readonly dialect: Dialect
  readonly isMultipart: boolean
  readonly revisions: boolean
  readonly latest: boolean
  readonly contents: boolean
  readonly encodingInfo: boolean
}

export interface BulkFailure {
  readonly id: unknown
  readonly rev: unknown
  readonly error: RequestError
}

export function failureOf({ id, rev, error }: BulkFailure) {
  return { id, rev, error: error.error, reason: error.reason }
}

/** Undefined where the request is for anything else than one revision of each document. */
export function askedTogether({ database }: BulkReading, entries: readonly unknown[]): AskedRevisions[] | undefined {
  if (database.reading) return undefined
  const asked: AskedRevisions[] = []
  for (const entry of entries) {
    const plain = plainEntry(entry)
    if (!plain) return undefined
    asked.push(plain)
  }
  return asked
}

function plainEntry(entry: unknown): AskedRevisions | undefined {
  if (!isObject(entry) || entry.atts_since !== undefined || entry.rev === undefined) return undefined
  try {
    const id = parseDocumentId(entry.id)
    return isLocalId(id) ? undefined : { id, revisions: [parseRevision(entry.rev)] }
  } catch (error) {
    if (error instanceof RequestError) return undefined
    throw error
  }
}

/** Documents that are opened at once. */
const ASKED_TOGETHER = 250
/** A piece of the reply ends with the document that reaches it. */
const PIECE_BYTES = 256 * 1024

export async function* textsTogether(
  reading: BulkReading,
  asked: readonly AskedRevisions[],
): AsyncGenerator<string | Buffer> {
  // Sent with the next piece.
  let before = '{"results":['
  for (let done = 0; done < asked.length; ) {
    const { opened, release } = await openPortion(reading, asked.slice(done, done + ASKED_TOGETHER))
    const contents = new SmallContents(reading, opened)
    let pieces: (string | Buffer)[] = []
    let bytes = 0
    try {
      for (const { id, documents, missing, isTooLarge } of opened) {
        before += `${done++ === 0 ? '' : ','}{"id":${quoteText(id)},"docs":[`
        if (isTooLarge) {
          yield before
          yield* textsInPortions(reading, asked[done - 1]!)
          before = ''
        }
        let separator = ''
        for (const document of documents) {
          pieces.push(`${before}${separator}{"ok":`)
          before = '}'
          separator = ','
          if (!contents.areWantedOf(document)) pieces.push(stubText(document, reading))
          else if (contents.areSmallOf(document)) bytes += await contents.addTo(pieces, document)
          else {
            yield joinText(pieces)
            pieces = []
            yield* inlineText(document, reading.database.attachments, reading).chunks()
          }
          if (bytes < PIECE_BYTES) continue
          yield joinText(pieces)
          pieces = []
          bytes = 0
        }
        for (const rev of missing) {
          before += `${separator}{"error":${JSON.stringify(failureOf({ id, rev, error: notFound('missing') }))}}`
          separator = ','
        }
        before += ']}'
      }
      if (pieces.length > 0) yield joinText(pieces)
    } finally {
      release()
    }
  }
  yield `${before}]}\n`
}

/** The revisions of one document that do not fit into memory together. */
async function* textsInPortions(
  reading: BulkReading,
  { id, revisions: wanted }: AskedRevisions,
): AsyncGenerator<string | Buffer> {
  const { database, revisions, latest, contents } = reading
  using found = await openRevisionPortions(database, id, wanted, { revisions, latest, known: [], contents })
  let separator = ''
  for await (const portion of found.portions()) {
    for (const each of portion) {
      if (!each.found) {
        yield `${separator}{"error":${JSON.stringify(failureOf({ id, rev: each.revision, error: notFound('missing') }))}}`
      } else if (contents) {
        yield `${separator}{"ok":`
        yield* inlineText(each.document, database.attachments, reading).chunks()
        yield '}'
      } else yield enclosed(`${separator}{"ok":`, stubText(each.document, reading), '}')
      separator = ','
    }
  }
}

/** Opens the first of the documents. Compaction does not remove their attachments until it is released. */
function openPortion(
  { database, latest, revisions, contents }: BulkReading,
  asked: readonly AskedRevisions[],
): Promise<Kept<OpenedRevisions[]>> {
  return openKept(
    database,
    (view) => openMany(view, asked, { latest, revisions }),
    (opened) =>
      contents ? opened.flatMap(({ documents }) => documents.flatMap(({ attachments }) => attachments)) : [],
  )
}

/** Smaller contents are put into the text of the document; larger ones are streamed. */
const SMALL_BYTES = 128 * 1024

/** Small contents of several documents, in their order. */
class SmallContents {
  readonly #reading: BulkReading
  readonly #contents: AsyncGenerator<Buffer>

  constructor(reading: BulkReading, opened: readonly OpenedRevisions[]) {
    this.#reading = reading
    const small = opened.flatMap(({ documents }) =>
      documents.flatMap((document) =>
        this.areWantedOf(document) && this.areSmallOf(document) ? document.attachments : [],
      ),
    )
    this.#contents = reading.database.attachments.readWhole(small)
  }

  areWantedOf({ attachments }: OpenedDocument): boolean {
    return this.#reading.contents && attachments.length > 0
  }

  areSmallOf({ attachments }: OpenedDocument): boolean {
    let bytes = 0
    for (const { encoding, storedLength } of attachments) {
      if (encoding || storedLength > CHUNK_BYTES) return false
      bytes += storedLength
    }
    return bytes <= SMALL_BYTES
  }

  /** Adds the text of the next document that has small contents; returns their size. */
  async addTo(pieces: (string | Buffer)[], document: OpenedDocument): Promise<number> {
    let bytes = 0
    for (const piece of inlinePieces(document, this.#reading.encodingInfo)) {
      const text = typeof piece === 'string' ? piece : await this.#base64(piece)
      pieces.push(text)
      bytes += text.length
    }
    return bytes
  }

  async #base64({ name }: AttachmentRecord): Promise<string> {
    const next = await this.#contents.next()
    if (next.done) throw new Error(`The content of attachment ${name} was not read.`)
    const text = next.value.toString('base64')
    if (this.#reading.database.attachments.givesCopies) freeBytes(next.value)
    return text
  }
}
