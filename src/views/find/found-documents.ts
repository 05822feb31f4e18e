/**
 * Reads the documents that an index points to, and gives the texts of those that match. A document that does not match is
 * looked at where it is stored: nothing is made of it.
 */

import type { LastingView } from '../../database/database-view.ts'
import { RecordReader } from '../../database/layout/document-record.ts'
import { DOCUMENT_PREFIX } from '../../database/layout/keys.ts'
import { type BodyPlace, bodyPlaces } from '../../database/layout/read-many.ts'
import { decodeBody, plainTextAt } from '../../database/layout/stored-body.ts'
import { stubText } from '../../database/reading/document-rendering.ts'
import { conflicts } from '../../document/revisions/winner.ts'
import { copyBytes } from '../../encoding/bytes/short-bytes.ts'
import { quoteBytes } from '../../encoding/json/json-text-splice.ts'
import { TimeSlice } from '../../runtime/clock.ts'
import type { FieldProjection } from '../../selectors/field-projection.ts'
import type { SelectorMatcher } from '../../selectors/selector-matcher.ts'

export interface WantedDocuments {
  readonly matcher: SelectorMatcher
  readonly fields: FieldProjection | undefined
  /** Whether `_conflicts` is shown. */
  readonly conflicts: boolean
}

/** A document that may match: its id, and where its record lies. */
export interface DocumentPlace {
  readonly id: Buffer
  readonly block: Buffer
  readonly recordAt: number
}

/** Documents are read together up to the one that reaches this. */
const PORTION_BYTES = 256 * 1024
/** So much of what matches is held before it is handed on. */
const MOST_TEXT_BYTES = 1024 * 1024

export class FoundDocuments {
  readonly #view: LastingView
  readonly #wanted: WantedDocuments
  readonly #record = new RecordReader()
  readonly #needsId: boolean
  readonly #needsRevision: boolean
  /** What of the document that is looked at is not in its text. */
  readonly #members = new Map<string, Buffer>()
  /** How many were looked at. */
  examined = 0

  constructor(view: LastingView, wanted: WantedDocuments) {
    this.#view = view
    this.#wanted = wanted
    const members = [...wanted.matcher.members, ...(wanted.fields?.members ?? [])]
    this.#needsId = members.includes('_id')
    this.#needsRevision = members.includes('_rev')
  }

  /**
   * Of documents with these ids: the text of each that is there and matches, in their order. Fewer where those so far are
   * large: who wants the others asks for them afterwards.
   */
  async ofIds(ids: readonly Buffer[]): Promise<(Buffer | undefined)[]> {
    using _pin = this.#view.pin()
    const stored = await this.#view.snapshot.getMany(ids.map((id) => Buffer.concat([DOCUMENT_PREFIX, id])))
    const places: DocumentPlace[] = []
    const positions: number[] = []
    for (const [i, block] of stored.entries()) {
      if (!block) continue
      places.push({ id: ids[i]!, block, recordAt: 0 })
      positions.push(i)
    }
    const texts = await this.#read(places)
    const found: (Buffer | undefined)[] = Array.from({ length: positions[texts.length] ?? ids.length }, () => undefined)
    for (const [i, text] of texts.entries()) found[positions[i]!] = text
    return found
  }

  /** The same where the records were read in the state that the view is pinned to. */
  ofRecords(places: readonly DocumentPlace[]): Promise<(Buffer | undefined)[]> {
    return this.#read(places)
  }

  async #read(places: readonly DocumentPlace[]): Promise<(Buffer | undefined)[]> {
    const texts: (Buffer | undefined)[] = []
    const record = this.#record
    const slice = new TimeSlice()
    let textBytes = 0
    for (let first = 0; first < places.length && textBytes < MOST_TEXT_BYTES; texts.length = first) {
      const portion: number[] = []
      const bodies: number[] = []
      let bytes = 0
      for (; first < places.length && bytes < PORTION_BYTES; first++) {
        record.read(places[first]!.block, places[first]!.recordAt)
        if (record.deleted) continue
        portion.push(first)
        bodies.push(record.body)
        bytes += record.bodyBytes
      }
      if (portion.length === 0) continue
      const stored = await bodyPlaces(this.#view.snapshot, bodies)
      for (const [i, position] of portion.entries()) {
        const place = places[position]!
        const body = stored[i]!
        this.examined++
        record.read(place.block, place.recordAt)
        const textAt = this.#isPlain(record) ? plainTextAt(body.block, body.start) : undefined
        // Nearly all are judged at once: to wait for each would cost more than to judge it.
        const text =
          textAt === undefined ? await this.#judgedWhole(place, body) : this.#judgedPlain(place, body, textAt)
        texts[position] = text
        textBytes += text?.length ?? 0
        if (slice.isOverNow) await slice.pause()
      }
    }
    return texts
  }

  #judgedPlain({ id }: DocumentPlace, body: BodyPlace, textAt: number): Buffer | undefined {
    const { matcher, fields } = this.#wanted
    const members = this.#besides(id, this.#record)
    if (!matcher.matchesBeside(members, body.block, textAt)) return undefined
    if (fields) return fields.projectBeside(members, body.block, textAt)
    return spliced(members.get('_id') ?? quoted(id), this.#revision(this.#record), body, textAt)
  }

  /** Whether there is nothing to say of a document beside its body and its attachments. */
  #isPlain({ hasHistory }: RecordReader): boolean {
    return this.#view.reading === undefined && !(this.#wanted.conflicts && hasHistory)
  }

  #besides(id: Buffer, record: RecordReader): Map<string, Buffer> {
    const members = this.#members
    if (this.#needsId) members.set('_id', quoted(id))
    if (this.#needsRevision) members.set('_rev', this.#revision(record))
    return members
  }

  #revision(record: RecordReader): Buffer {
    const revision = Buffer.allocUnsafe(record.mostRevisionBytes)
    return revision.subarray(0, record.writeRevision(revision, 0))
  }

  /** A document with attachments, with conflicts that are shown, or of which a reader may see a part only. */
  async #judgedWhole({ id: idBytes }: DocumentPlace, place: BodyPlace): Promise<Buffer | undefined> {
    const id = idBytes.toString()
    const { winner: revision, hasHistory } = this.#record
    const { text: body, attachments } = decodeBody(place.block.subarray(place.start, place.end))
    const tree = this.#wanted.conflicts && hasHistory ? await this.#tree(id) : undefined
    const parts = { id, revision, body, conflicts: tree && conflicts(tree) }
    const document = { revision, deleted: false, parts, attachments, knownGeneration: 0 }
    const { reading } = this.#view
    const readable = reading ? reading.readable(document) : document
    if (!readable) return undefined
    const text = stubText(readable)
    const { matcher, fields } = this.#wanted
    if (!matcher.matches(text)) return undefined
    return fields ? fields.project(text) : text
  }

  async #tree(id: string) {
    const record = await this.#view.record(id)
    return record && this.#view.tree(id, record)
  }
}

const BEFORE_ID = Buffer.from('{"_id":')
const BEFORE_REVISION = Buffer.from(',"_rev":')
const EMPTY_BODY_BYTES = '{}'.length
const COMMA = 0x2c
const QUOTE = 0x22
const BACKSLASH = 0x5c
const DELETE = 0x7f

function spliced(id: Buffer, revision: Buffer, { block, end }: BodyPlace, textAt: number): Buffer {
  const head = BEFORE_ID.length + id.length + BEFORE_REVISION.length + revision.length
  const text = Buffer.allocUnsafe(head + 1 + end - textAt)
  let at = copyBytes(text, 0, BEFORE_ID, 0, BEFORE_ID.length)
  at = copyBytes(text, at, id, 0, id.length)
  at = copyBytes(text, at, BEFORE_REVISION, 0, BEFORE_REVISION.length)
  at = copyBytes(text, at, revision, 0, revision.length)
  // The brace of the body gives way to a comma; an empty body leaves its closing brace alone.
  if (end - textAt > EMPTY_BODY_BYTES) text[at++] = COMMA
  return text.subarray(0, copyBytes(text, at, block, textAt + 1, end))
}

/** An id as JSON text. Most have nothing that must be escaped. */
function quoted(id: Buffer): Buffer {
  const text = Buffer.allocUnsafe(id.length + 2)
  text[0] = QUOTE
  for (let i = 0; i < id.length; i++) {
    const byte = id[i]!
    if (byte < 0x20 || byte === QUOTE || byte === BACKSLASH || byte === DELETE) return quoteBytes(id.toString())
    text[i + 1] = byte
  }
  text[id.length + 1] = QUOTE
  return text
}
