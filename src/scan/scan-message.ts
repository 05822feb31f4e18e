/** The messages between the main thread and a scan thread. Bytes are transferred, not copied. */
import type { SentDocument } from '../document/document-fields.ts'
import type { DocumentId, RevisionId, RevisionPath } from '../document/ids.ts'
import { type ErrorKind, RequestError } from '../document/request-error.ts'
import { type BodyTerm, HashedBody } from '../document/revisions/new-revision.ts'
import { JsonTextError } from '../encoding/json/json-text.ts'
import type { Condition } from '../selectors/condition.ts'
import type { BulkSwitches } from './bulk-reading.ts'

/** A scan begins with its text, and sends one result for each `next`. */
export type ToScanThread =
  | { readonly type: 'begin'; readonly job: number; readonly scan: Scan; readonly text: Uint8Array<ArrayBuffer> }
  | { readonly type: 'next'; readonly job: number }
  | { readonly type: 'end'; readonly job: number }

export type Scan =
  | { readonly kind: 'document'; readonly id: DocumentId | undefined; readonly largestDocument: number | undefined }
  | { readonly kind: 'bulk'; readonly mostDocuments: number; readonly largestDocument: number | undefined }
  | { readonly kind: 'value'; readonly mostValues: number }
  | MatchScan

/** Whether a document matches, and which of its fields to return if so. */
export interface MatchScan {
  readonly kind: 'match'
  /** Each query has a number of its own. */
  readonly query: number
  /** Left out where the thread has it from the document before: it may take long to copy and to compile. */
  readonly selection?: Selection
  /** Members of the document that are not in its text. */
  readonly members: ReadonlyMap<string, Uint8Array>
}

export interface Selection {
  readonly condition: Condition
  /** The fields to return of a document that matches; undefined for all. */
  readonly fields: readonly string[] | undefined
}

export type FromScanThread =
  | { readonly job: number; readonly result: ScanResult }
  | { readonly job: number; readonly failure: ScanFailure }

export type ScanResult =
  /** `isRestart`: the list begins again, and documents received before are dropped. */
  | { readonly kind: 'documents'; readonly batch: DocumentBatch; readonly isRestart: boolean }
  /** The end of a bulk request, with its other members. */
  | { readonly kind: 'bulk'; readonly switches: BulkSwitches }
  | { readonly kind: 'value'; readonly text: Uint8Array<ArrayBuffer>; readonly cuts: readonly Cut[] }
  | MatchResult

export interface MatchResult {
  readonly kind: 'match'
  readonly isMatch: boolean
  /** The requested fields of a document that matches, where not all are requested. */
  readonly projected: Uint8Array<ArrayBuffer> | undefined
}

/** Documents with their bytes in few blocks. */
export interface DocumentBatch {
  readonly blocks: readonly Uint8Array<ArrayBuffer>[]
  readonly documents: readonly PackedDocument[]
}

/** A block, and where in it. */
export type Place = readonly [block: number, start: number, end: number]

export interface PackedDocument {
  readonly id: DocumentId | undefined
  readonly revision: RevisionId | undefined
  readonly history: RevisionPath | undefined
  readonly deleted: boolean
  readonly body: Place
  readonly term: Place | PackedHash
  readonly attachments: readonly PackedAttachment[]
}

/** A body with the revision that was hashed from it. */
export type PackedHash = Omit<HashedBody, 'body'>

export interface PackedAttachment {
  readonly name: string
  readonly text: Place
  readonly data: Place | undefined
}

/**
 * Parts of a text that are small enough to be parsed at once: members of its object, or a member that is a list and
 * its elements, where each pair of numbers is a part of them.
 */
export type Cut =
  | { readonly kind: 'whole' | 'members'; readonly start: number; readonly end: number }
  | { readonly kind: 'list'; readonly name: string; readonly parts: readonly number[] }

export type ScanFailure =
  | { readonly kind: 'json'; readonly message: string; readonly at: number }
  | { readonly kind: 'refused'; readonly errorKind: ErrorKind; readonly error: string; readonly reason: string }
  | { readonly kind: 'other'; readonly message: string }

export function serializeError(error: unknown): ScanFailure {
  if (error instanceof JsonTextError) return { kind: 'json', message: error.message, at: error.at }
  if (error instanceof RequestError) {
    const { kind: errorKind, error: identifier, reason } = error
    return { kind: 'refused', errorKind, error: identifier, reason }
  }
  return { kind: 'other', message: String(error) }
}

export function parseError(failure: ScanFailure): Error {
  if (failure.kind === 'json') return new JsonTextError(failure.message, failure.at)
  if (failure.kind === 'refused') return new RequestError(failure.errorKind, failure.error, failure.reason)
  return new Error(failure.message)
}

/** Larger bytes are transferred as they are, in a block of their own. */
const LARGE_BYTES = 64 * 1024

/** Gathers documents into a batch. */
export class BatchWriter {
  readonly #documents: PackedDocument[] = []
  readonly #small: Uint8Array[] = []
  readonly #large: Uint8Array<ArrayBuffer>[] = []
  #smallBytes = 0
  #bytes = 0

  get count(): number {
    return this.#documents.length
  }

  get bytes(): number {
    return this.#bytes
  }

  add(document: SentDocument): void {
    const { id, revision, history, deleted, body, term, attachments } = document
    this.#documents.push({
      id,
      revision,
      history,
      deleted,
      body: this.#place(body),
      term: this.#term(term),
      attachments: attachments.map(({ name, text, data }) => ({
        name,
        text: this.#place(text),
        data: data && this.#place(data),
      })),
    })
  }

  finish(): DocumentBatch {
    const block = new Uint8Array(this.#smallBytes)
    let at = 0
    for (const bytes of this.#small) {
      block.set(bytes, at)
      at += bytes.length
    }
    return { blocks: [block, ...this.#large], documents: this.#documents }
  }

  #term(term: BodyTerm): Place | PackedHash {
    if (!(term instanceof HashedBody)) return this.#place(term)
    const { parent, deleted, revision } = term
    return { parent, deleted, revision }
  }

  #place(bytes: Uint8Array): Place {
    this.#bytes += bytes.length
    if (bytes.length >= LARGE_BYTES) return [this.#large.push(ownBytes(bytes)), 0, bytes.length]
    const start = this.#smallBytes
    this.#small.push(bytes)
    this.#smallBytes += bytes.length
    return [0, start, this.#smallBytes]
  }
}

/** Unpacks the documents of a batch in the main thread. */
export function documentsOf({ blocks, documents }: DocumentBatch): SentDocument[] {
  const buffers = blocks.map((block) => Buffer.from(block.buffer, block.byteOffset, block.byteLength))
  const at = ([block, start, end]: Place) => buffers[block]!.subarray(start, end)
  return documents.map(({ id, revision, history, deleted, body: place, term, attachments }) => {
    const body = at(place)
    return {
      id,
      revision,
      history,
      deleted,
      body,
      term: 'revision' in term ? new HashedBody(body, term) : at(term),
      attachments: attachments.map(({ name, text, data }) => ({ name, text: at(text), data: data && at(data) })),
    }
  })
}

/** The same bytes in a buffer of their own, which can be transferred. */
export function ownBytes(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  const { buffer, byteOffset, byteLength } = bytes
  if (buffer instanceof ArrayBuffer && buffer.byteLength === byteLength) return new Uint8Array(buffer, byteOffset)
  return new Uint8Array(bytes)
}
