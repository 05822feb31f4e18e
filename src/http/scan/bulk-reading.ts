/** The body of `_bulk_docs`, read where it stands: its documents are scanned once, one after the other, and counted. */
import { readDocument, type SentDocument } from '../../document/document-fields.ts'
import { badRequest, tooManyItems } from '../../document/request-error.ts'
import { JsonReader } from '../../encoding/json-text.ts'

export interface BulkSwitches {
  readonly newEdits: boolean
  readonly allOrNothing: boolean
}

export class BulkReading {
  readonly #reader: JsonReader
  readonly #mostDocuments: number
  #newEdits: unknown = true
  #allOrNothing: unknown = false
  #refusal: Error | undefined
  #hasDocuments = false

  constructor(text: Buffer, mostDocuments: number) {
    this.#reader = new JsonReader(text)
    this.#mostDocuments = mostDocuments
  }

  /**
   * All documents, in order; to be read to the end before `switches` is asked. Of a list that comes twice the last
   * counts: what came before `anew` does not.
   */
  *documents(): Generator<SentDocument | 'anew', void, void> {
    const reader = this.#reader
    if (reader.kind() !== 'object') {
      reader.skip()
      reader.end()
      throw badRequest('Request body must be a JSON object')
    }
    for (const name of reader.members()) {
      if (name === 'new_edits') this.#newEdits = reader.value()
      else if (name === 'all_or_nothing') this.#allOrNothing = reader.value()
      else if (name === 'docs') {
        if (this.#hasDocuments) yield 'anew'
        if (reader.kind() !== 'array') this.#refusal = badRequest('`docs` parameter must be an array.')
        else yield* this.#list()
      }
    }
    reader.end()
  }

  /** What the request says beside its documents. */
  switches(): BulkSwitches {
    if (this.#refusal) throw this.#refusal
    if (!this.#hasDocuments) throw badRequest("Missing JSON list of 'docs'")
    if (typeof this.#newEdits !== 'boolean') throw badRequest('`new_edits` parameter must be a boolean.')
    return { newEdits: this.#newEdits, allOrNothing: this.#allOrNothing === true }
  }

  *#list(): Generator<SentDocument, void, void> {
    this.#hasDocuments = true
    for (const index of this.#reader.elements()) {
      if (index >= this.#mostDocuments) throw tooManyItems(this.#mostDocuments)
      yield readDocument(this.#reader)
    }
  }
}
