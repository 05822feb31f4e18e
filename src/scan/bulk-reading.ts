/** The body of `_bulk_docs`: its documents are scanned in place, one after the other, and counted. */
import { readDocument, type SentDocument } from '../document/document-fields.ts'
import { badRequest, tooManyItems } from '../document/request-error.ts'
import type { ByteArena } from '../encoding/bytes/byte-arena.ts'
import { JsonReader } from '../encoding/json/json-text.ts'

export interface BulkSwitches {
  readonly newEdits: boolean
  readonly allOrNothing: boolean
}

export interface BulkLimits {
  readonly longestBytes?: number
  readonly largestDocument?: number | undefined
  /** Where the bodies of documents are copied to, if not into buffers of their own. */
  readonly arena?: ByteArena
}

export class BulkReading {
  readonly #reader: JsonReader
  /** Documents and their attachments. */
  readonly #mostItems: number
  readonly #longestBytes: number
  readonly #largestDocument: number | undefined
  #newEdits: unknown = true
  #allOrNothing: unknown = false
  #refusal: Error | undefined
  #hasDocuments = false

  /** A value of more bytes than `longestBytes` is a `LongValueError`. */
  constructor(
    text: Buffer,
    mostItems: number,
    { longestBytes = Number.POSITIVE_INFINITY, largestDocument, arena }: BulkLimits = {},
  ) {
    this.#reader = new JsonReader(text, { arena })
    this.#mostItems = mostItems
    this.#longestBytes = longestBytes
    this.#largestDocument = largestDocument
  }

  /**
   * All documents, in order; to be read to the end before `switches` is called. If the member `docs` comes twice, the last one
   * counts: what came before `restart` is to be dropped.
   */
  *documents(): Generator<SentDocument | 'restart', void, void> {
    const reader = this.#reader
    if (reader.kind() !== 'object') {
      this.#read(() => reader.skip())
      reader.end()
      throw badRequest('Request body must be a JSON object')
    }
    for (const name of reader.members()) {
      if (name === 'new_edits') this.#newEdits = this.#read(() => reader.value())
      else if (name === 'all_or_nothing') this.#allOrNothing = this.#read(() => reader.value())
      else if (name !== 'docs') this.#read(() => reader.skip())
      else {
        if (this.#hasDocuments) yield 'restart'
        if (reader.kind() === 'array') yield* this.#list()
        else {
          this.#read(() => reader.skip())
          this.#refusal = badRequest('`docs` parameter must be an array.')
        }
      }
    }
    reader.end()
  }

  /** The other members of the request. */
  switches(): BulkSwitches {
    if (this.#refusal) throw this.#refusal
    if (!this.#hasDocuments) throw badRequest("Missing JSON list of 'docs'")
    if (typeof this.#newEdits !== 'boolean') throw badRequest('`new_edits` parameter must be a boolean.')
    return { newEdits: this.#newEdits, allOrNothing: this.#allOrNothing === true }
  }

  *#list(): Generator<SentDocument, void, void> {
    this.#hasDocuments = true
    const reader = this.#reader
    const readNext = () => readDocument(reader, this.#largestDocument)
    let items = 0
    for (const _ of reader.elements()) {
      if (++items > this.#mostItems) throw tooManyItems(this.#mostItems)
      const document = this.#read(readNext)
      // An attachment costs as much as a document.
      items += document.attachments.length
      if (items > this.#mostItems) throw tooManyItems(this.#mostItems)
      yield document
    }
  }

  #read<T>(read: () => T): T {
    return this.#reader.within(this.#longestBytes, read)
  }
}
