/**
 * Rows with their documents (`include_docs`). Documents are read when they are sent, so they may be newer than the
 * rows. Few are in memory at a time.
 */
import type { LastingView } from '../../database/database-view.ts'
import { type DocumentRecord, decodeRecord } from '../../database/layout/document-record.ts'
import { documentKey } from '../../database/layout/keys.ts'
import type { DocumentsWanted } from '../../database/listing/document-listing.ts'
import type { PieceableText, RowBlocks } from '../../database/listing/listed-rows.ts'
import type { OpenedDocument } from '../../database/reading/document-text.ts'
import { inlineText, stubText } from '../../database/reading/document-text.ts'
import { openDocument, openRevision } from '../../database/reading/open-document.ts'
import { ATTEMPTS, contentsMissing } from '../../database/reading/open-kept.ts'
import { isLocalId, parseRevision, type RevisionId } from '../../document/ids.ts'
import { RequestError } from '../../document/request-error.ts'
import { conflicts } from '../../document/revisions/winner.ts'
import { isObject } from '../../encoding/json/json-value.ts'
import type { StoredRow } from '../layout/index-layout.ts'
import type { StoredRows } from './row-query.ts'

export class RowDocuments {
  readonly #view: LastingView
  readonly #wanted: DocumentsWanted

  constructor(view: LastingView, wanted: DocumentsWanted) {
    this.#view = view
    this.#wanted = wanted
  }

  async *of(rows: StoredRows): RowBlocks {
    let inVain = 0
    for (let first = 0; first < rows.length; ) {
      const portion = await this.#portion(rows, first)
      if (portion === 'outdated') {
        if (++inVain === ATTEMPTS) throw contentsMissing()
        continue
      }
      inVain = 0
      try {
        yield portion.texts
      } finally {
        portion.release()
      }
      first += portion.texts.length
    }
  }

  /** As many rows from `first` on as have documents that fit into memory together; one at least. */
  async #portion(rows: StoredRows, first: number): Promise<Portion | 'outdated'> {
    // Records, trees and bodies must be of one state; a client that stalls later does not hold it.
    using pin = this.#view.pin()
    const count = Math.min(rows.length - first, ROWS_A_PORTION)
    const links = Array.from({ length: count }, (_, i) => linkedDocument(rows.row(first + i)))
    const found = fitting(await this.#find(links))
    const documents = await this.#open(found)
    const release = await this.#keepContents(documents)
    if (release === 'gone') {
      // A newer snapshot no longer refers to them, and compaction has removed them.
      pin[Symbol.dispose]()
      this.#view.renew()
      return 'outdated'
    }
    const texts = documents.map((document, i) => withDocument(rows.row(first + i), this.#text(document)))
    return { texts, release }
  }

  async #find(links: readonly (LinkedDocument | undefined)[]): Promise<FoundDocument[]> {
    const ids = [...new Set(links.flatMap((link) => (link ? [link.id] : [])))]
    const stored = await this.#view.snapshot.getMany(ids.map(documentKey))
    const records = new Map(ids.map((id, i) => [id, stored[i] && decodeRecord(stored[i])]))
    return links.map((link) => ({ link, record: link && records.get(link.id) }))
  }

  /** Undefined where there is no such document, or it is deleted. Winners are read together. */
  async #open(found: readonly FoundDocument[]): Promise<(OpenedDocument | undefined)[]> {
    const winners = found.flatMap(({ link, record }) => (isWinner(link, record) ? [record] : []))
    const bodies = await this.#view.bodies(winners.map(({ body }) => body))
    let next = 0
    const documents: (OpenedDocument | undefined)[] = []
    for (const { link, record } of found) {
      if (!link) documents.push(undefined)
      else if (!isWinner(link, record)) documents.push(await this.#openOther(link))
      else {
        const { text, attachments } = bodies[next++]!
        const tree = this.#wanted.conflicts ? await this.#view.tree(link.id, record) : undefined
        const { winner: revision } = record
        const parts = { id: link.id, revision, body: text, conflicts: tree && conflicts(tree) }
        documents.push(this.#seen({ revision, deleted: false, parts, attachments, knownGeneration: 0 }))
      }
    }
    return documents
  }

  async #openOther({ id, revision }: LinkedDocument): Promise<OpenedDocument | undefined> {
    if (revision === undefined && !isLocalId(id)) return undefined
    try {
      const document = await (revision ? openRevision(this.#view, id, revision) : openDocument(this.#view, id))
      return document.deleted ? undefined : document
    } catch (error) {
      if (error instanceof RequestError && error.kind === 'not found') return undefined
      throw error
    }
  }

  #seen(document: OpenedDocument): OpenedDocument | undefined {
    const { reading } = this.#view
    return reading ? reading.readable(document) : document
  }

  /** Attachments that are sent later must not be removed in the meantime. */
  async #keepContents(documents: readonly (OpenedDocument | undefined)[]): Promise<(() => void) | 'gone'> {
    const { contents } = this.#wanted
    return contents ? contents.keepAll(documents.flatMap((each) => each?.attachments ?? [])) : () => {}
  }

  #text(document: OpenedDocument | undefined): PieceableText {
    if (!document) return 'null'
    const { contents, encodingInfo } = this.#wanted
    if (!contents || document.attachments.length === 0) return stubText(document, { encodingInfo }).toString()
    return inlineText(document, contents, { encodingInfo }).chunks()
  }
}

interface Portion {
  readonly texts: readonly PieceableText[]
  /** To be called when the texts were sent, or will not be. */
  release(): void
}

interface FoundDocument {
  readonly link: LinkedDocument | undefined
  readonly record: DocumentRecord | undefined
}

const ROWS_A_PORTION = 256

/** Documents are read together up to the one that reaches this. */
const PORTION_BYTES = 256 * 1024

function fitting(found: readonly FoundDocument[]): readonly FoundDocument[] {
  let bytes = 0
  const last = found.findIndex(({ record }) => {
    bytes += record?.bodyBytes ?? 0
    return bytes >= PORTION_BYTES
  })
  return last < 0 ? found : found.slice(0, last + 1)
}

function isWinner(link: LinkedDocument | undefined, record: DocumentRecord | undefined): record is DocumentRecord {
  if (!link || !record || record.deleted) return false
  return link.revision === undefined || link.revision === record.winner
}

function withDocument(row: StoredRow, document: PieceableText): PieceableText {
  const open = `${row.line.toString('utf8', 0, row.line.length - 1)},"doc":`
  return typeof document === 'string' ? `${open}${document}}` : enclosed(open, document)
}

async function* enclosed(open: string, pieces: AsyncIterable<string | Buffer>): AsyncGenerator<string | Buffer> {
  yield open
  yield* pieces
  yield '}'
}

/** The document that belongs to a row: its own, or the one that its value names by `_id`, `_rev` or both. */
interface LinkedDocument {
  readonly id: string
  /** Undefined for the winner. */
  readonly revision: RevisionId | undefined
}

/** Undefined where the value names what cannot be a document. */
function linkedDocument(row: StoredRow): LinkedDocument | undefined {
  const own: string = JSON.parse(row.id.toString())
  const value = mayLink(row.value) ? JSON.parse(row.value.toString()) : undefined
  if (!isObject(value)) return { id: own, revision: undefined }
  const { _id: id = own, _rev: revision } = value
  if (typeof id !== 'string' || !id.isWellFormed()) return undefined
  if (revision === undefined) return { id, revision: undefined }
  const parsed = parsedRevision(revision)
  return parsed === undefined ? undefined : { id, revision: parsed }
}

const OPEN_BRACE = 0x7b

/** Most values need not be parsed to know that they name nothing. */
function mayLink(value: Buffer): boolean {
  return value[0] === OPEN_BRACE && (value.includes('"_id"') || value.includes('"_rev"'))
}

function parsedRevision(value: unknown): RevisionId | undefined {
  try {
    return parseRevision(value)
  } catch {
    return undefined
  }
}
