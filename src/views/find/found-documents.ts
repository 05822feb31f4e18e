/**
 * Reads the documents that an index points to, and gives the texts of those that match. A document that does not match
 * is only read in place: no text is built.
 */

import type { LastingView } from '../../database/database-view.ts'
import { DOCUMENT_PREFIX } from '../../database/layout/keys.ts'
import { type BodyPlace, bodyPlaces } from '../../database/layout/read-bodies.ts'
import { RecordReader } from '../../database/layout/record-reader.ts'
import { decodeBody, plainTextAt } from '../../database/layout/stored-body.ts'
import { stubText } from '../../database/reading/document-text.ts'
import { conflicts } from '../../document/revisions/winner.ts'
import { copyBytes } from '../../encoding/bytes/short-bytes.ts'
import { quoteBytes } from '../../encoding/json/json-text-splice.ts'
import { TimeSlice } from '../../runtime/clock.ts'
import { isLargeToMatch, LargeMatcher } from '../../scan/large-match.ts'
import type { Condition } from '../../selectors/condition.ts'
import type { FieldProjection } from '../../selectors/field-projection.ts'
import type { SelectorMatcher } from '../../selectors/selector-matcher.ts'
import type { Client } from '../reading/open-index.ts'
import { FoundTexts } from './found-texts.ts'

export interface WantedDocuments {
  readonly condition: Condition
  /** Of the condition. */
  readonly matcher: SelectorMatcher
  readonly fields: FieldProjection | undefined
  /** Whether `_conflicts` is shown. */
  readonly conflicts: boolean
}

/** A document that may match: where its key and its record lie. */
export interface DocumentPlace {
  readonly keyBlock: Buffer
  /** The key is the prefix of documents and the id. */
  readonly keyAt: number
  readonly keyEnd: number
  readonly block: Buffer
  readonly recordAt: number
}

/** A copy: it may outlive the block. */
export function idOf({ keyBlock, keyAt, keyEnd }: DocumentPlace): Buffer {
  return Buffer.from(keyBlock.subarray(keyAt + DOCUMENT_PREFIX.length, keyEnd))
}

export interface ReadingLimits {
  /** The client, whose query ends when it is gone. */
  readonly client?: Client | undefined
  /** How long documents of one call may take: the snapshot is held meanwhile. */
  readonly longestMs?: number
}

const LONGEST_MS = 500

/** Documents are read together up to the one that reaches this. */
const PORTION_BYTES = 256 * 1024
/** The bytes of matches that are held before they are passed on. */
const MOST_TEXT_BYTES = 1024 * 1024

export class FoundDocuments {
  readonly #view: LastingView
  readonly #wanted: WantedDocuments
  readonly #client: Client | undefined
  readonly #longestMs: number
  readonly #large: LargeMatcher
  readonly #record = new RecordReader()
  readonly #needsId: boolean
  readonly #needsRevision: boolean
  /** Fields of the current document that are not in its text. */
  readonly #members = new Map<string, Buffer>()
  /** The number of examined documents. */
  examined = 0

  constructor(view: LastingView, wanted: WantedDocuments, { client, longestMs = LONGEST_MS }: ReadingLimits = {}) {
    this.#view = view
    this.#wanted = wanted
    this.#client = client
    this.#longestMs = longestMs
    this.#large = new LargeMatcher({ condition: wanted.condition, fields: wanted.fields?.names }, client)
    const members = [...wanted.matcher.members, ...(wanted.fields?.members ?? [])]
    this.#needsId = members.includes('_id')
    this.#needsRevision = members.includes('_rev')
  }

  /**
   * Of documents with these keys: the text of each that is there and matches. Fewer rows, but at least one, if those so far are
   * large or took long: the caller requests the others afterwards.
   */
  async ofKeys(keys: readonly Buffer[]): Promise<FoundTexts> {
    using _pin = this.#view.pin()
    const stored = await this.#view.snapshot.getMany(keys)
    const places: (DocumentPlace | undefined)[] = []
    for (let i = 0; i < keys.length; i++) {
      const block = stored[i]
      const key = keys[i]!
      places.push(block && { keyBlock: key, keyAt: 0, keyEnd: key.length, block, recordAt: 0 })
    }
    return await this.ofRecords(places)
  }

  /** The same where the records were read in the state that the view is pinned to. */
  async ofRecords(places: readonly (DocumentPlace | undefined)[]): Promise<FoundTexts> {
    const texts = new FoundTexts()
    const slice = new TimeSlice()
    const endMs = performance.now() + this.#longestMs
    while (texts.rows < places.length && texts.bytes < MOST_TEXT_BYTES) {
      const { end, bodies } = this.#portion(places, texts.rows)
      const stored = await bodyPlaces(this.#view.snapshot, bodies)
      let next = 0
      for (let row = texts.rows; row < end; row++) {
        const place = places[row]
        if (!place || !this.#isLive(place)) {
          texts.pass()
          continue
        }
        const body = stored[next++]!
        this.examined++
        const textAt = this.#isPlain(this.#record) ? plainTextAt(body.block, body.start) : undefined
        // Nearly all are matched synchronously: awaiting each would cost more than matching it.
        if (textAt === undefined) addIfFound(texts, await this.#judgedWhole(place, body))
        else if (isLargeToMatch(body.end - textAt)) await this.#judgeLarge(place, body, textAt, texts)
        else this.#judgePlain(place, body, textAt, texts)
        if (!slice.isOverNow) continue
        await slice.pause()
        this.#client?.signal.throwIfAborted()
        if (performance.now() >= endMs) return texts
      }
    }
    return texts
  }

  /** The bodies that are read together, of the documents from the first one on, and where these end. */
  #portion(places: readonly (DocumentPlace | undefined)[], first: number): { end: number; bodies: number[] } {
    const bodies: number[] = []
    let bytes = 0
    let end = first
    for (; end < places.length && bytes < PORTION_BYTES; end++) {
      const place = places[end]
      if (!place || !this.#isLive(place)) continue
      bodies.push(this.#record.body)
      bytes += this.#record.bodyBytes
    }
    return { end, bodies }
  }

  /** Reads the record of a document. */
  #isLive({ block, recordAt }: DocumentPlace): boolean {
    this.#record.read(block, recordAt)
    return !this.#record.deleted
  }

  #judgePlain(place: DocumentPlace, body: BodyPlace, textAt: number, texts: FoundTexts): void {
    const { matcher, fields } = this.#wanted
    const { block } = body
    const members = this.#besides(place)
    const isMatch = members ? matcher.matchesBeside(members, block, textAt) : matcher.matches(block, textAt)
    if (!isMatch) texts.pass()
    else if (fields) texts.add(fields.projectBeside(members ?? NO_MEMBERS, block, textAt))
    else addSpliced(texts, place, this.#record, body, textAt)
  }

  /** Whether a document has nothing but its body and its attachments. */
  #isPlain({ hasHistory }: RecordReader): boolean {
    return this.#view.reading === undefined && !(this.#wanted.conflicts && hasHistory)
  }

  async #judgeLarge(place: DocumentPlace, body: BodyPlace, textAt: number, texts: FoundTexts): Promise<void> {
    const text = body.block.subarray(textAt, body.end)
    const { isMatch, projected } = await this.#matchLarge(this.#besides(place) ?? NO_MEMBERS, text)
    if (!isMatch) texts.pass()
    else if (projected) texts.add(projected)
    else addSpliced(texts, place, this.#record, body, textAt)
  }

  async #matchLarge(members: ReadonlyMap<string, Buffer>, text: Buffer) {
    const { isMatch, projected } = await this.#large.match(members, text)
    return { isMatch, projected: projected && Buffer.from(projected.buffer) }
  }

  /** What is looked at and is not in the text of the document; undefined where nothing is. */
  #besides(place: DocumentPlace): Map<string, Buffer> | undefined {
    if (!this.#needsId && !this.#needsRevision) return undefined
    const members = this.#members
    if (this.#needsId) members.set('_id', quoteBytes(idOf(place).toString()))
    if (this.#needsRevision) members.set('_rev', revisionText(this.#record))
    return members
  }

  /** A document with attachments, with conflicts that are shown, or of which a reader may see a part only. */
  async #judgedWhole(place: DocumentPlace, { block, start, end }: BodyPlace): Promise<Buffer | undefined> {
    const id = idOf(place).toString()
    const { winner: revision, hasHistory } = this.#record
    const { text: body, attachments } = decodeBody(block.subarray(start, end))
    const tree = this.#wanted.conflicts && hasHistory ? await this.#tree(id) : undefined
    const parts = { id, revision, body, conflicts: tree && conflicts(tree) }
    const document = { revision, deleted: false, parts, attachments, knownGeneration: 0 }
    const { reading } = this.#view
    const readable = reading ? reading.readable(document) : document
    if (!readable) return undefined
    const text = stubText(readable)
    if (isLargeToMatch(text.length)) {
      const { isMatch, projected } = await this.#matchLarge(NO_MEMBERS, text)
      return isMatch ? (projected ?? text) : undefined
    }
    const { matcher, fields } = this.#wanted
    if (!matcher.matches(text)) return undefined
    return fields ? fields.project(text) : text
  }

  async #tree(id: string) {
    const record = await this.#view.record(id)
    return record && this.#view.tree(id, record)
  }
}

const NO_MEMBERS: ReadonlyMap<string, Buffer> = new Map()
const BEFORE_ID = Buffer.from('{"_id":')
const BEFORE_REVISION = Buffer.from(',"_rev":')
const EMPTY_BODY_BYTES = '{}'.length
const COMMA = 0x2c

function revisionText(record: RecordReader): Buffer {
  const revision = Buffer.allocUnsafe(record.mostRevisionBytes)
  return revision.subarray(0, record.writeRevision(revision, 0))
}

function addIfFound(texts: FoundTexts, text: Buffer | undefined): void {
  if (text) texts.add(text)
  else texts.pass()
}

/** Adds the text of a document: id and revision come first, then its body. */
function addSpliced(
  texts: FoundTexts,
  place: DocumentPlace,
  record: RecordReader,
  body: BodyPlace,
  textAt: number,
): void {
  const { keyBlock, keyAt, keyEnd } = place
  const idAt = keyAt + DOCUMENT_PREFIX.length
  const escaped = isPlain(keyBlock, idAt, keyEnd) ? undefined : quoteBytes(idOf(place).toString())
  const idBytes = escaped?.length ?? keyEnd - idAt + 2
  let at = texts.begin(HEAD_BYTES + idBytes + record.mostRevisionBytes + body.end - textAt)
  const { block } = texts
  at = copyBytes(block, at, BEFORE_ID, 0, BEFORE_ID.length)
  if (escaped) at = copyBytes(block, at, escaped, 0, escaped.length)
  else {
    block[at] = QUOTE
    at = copyBytes(block, at + 1, keyBlock, idAt, keyEnd)
    block[at++] = QUOTE
  }
  at = copyBytes(block, at, BEFORE_REVISION, 0, BEFORE_REVISION.length)
  at = record.writeRevision(block, at)
  // The opening brace of the body becomes a comma; of an empty body only the closing brace remains.
  if (body.end - textAt > EMPTY_BODY_BYTES) block[at++] = COMMA
  texts.finish(copyBytes(block, at, body.block, textAt + 1, body.end))
}

const HEAD_BYTES = BEFORE_ID.length + BEFORE_REVISION.length
const QUOTE = 0x22
const BACKSLASH = 0x5c
const DELETE = 0x7f

/** Whether an id has nothing that JSON escapes, as most have. */
function isPlain(block: Buffer, start: number, end: number): boolean {
  for (let at = start; at < end; at++) {
    const byte = block[at]!
    if (byte < 0x20 || byte === QUOTE || byte === BACKSLASH || byte === DELETE) return false
  }
  return true
}
