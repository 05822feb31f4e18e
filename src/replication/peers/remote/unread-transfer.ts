/**
 * A revision from a remote source that this server cannot store: nested too deeply, or with unknown underscore members.
 * A local target refuses it; a remote one gets its text and decides.
 */

import type { RequestError } from '../../../document/request-error.ts'
import { isObject } from '../../../encoding/json/json-value.ts'
import type { StoredForm, TransferredAttachment, TransferredDocument } from '../transferred-document.ts'

export class UnreadTransfer implements TransferredDocument {
  readonly isRepeatable = true
  readonly attachments: readonly TransferredAttachment[] = []
  readonly id: string
  readonly revision: string
  readonly #text: Buffer
  readonly #refusal: RequestError

  /** Undefined if the text is not a document: it was damaged in transit. */
  static of(text: Buffer, refusal: RequestError): UnreadTransfer | undefined {
    const members = parsed(text)
    if (!isObject(members) || typeof members._id !== 'string' || typeof members._rev !== 'string') return undefined
    return new UnreadTransfer(members._id, members._rev, text, refusal)
  }

  private constructor(id: string, revision: string, text: Buffer, refusal: RequestError) {
    this.id = id
    this.revision = revision
    this.#text = text
    this.#refusal = refusal
  }

  get sizeBytes(): number {
    return this.#text.length
  }

  /** They were not read. */
  get ancestors(): readonly string[] {
    return []
  }

  get hasStubs(): boolean {
    return false
  }

  get stubbedBytes(): undefined {
    return undefined
  }

  stored(): StoredForm {
    throw this.#refusal
  }

  text(): Buffer {
    return this.#text
  }

  inlineText(): undefined {
    return undefined
  }

  checkContents(): void {}

  release(): void {}
}

function parsed(text: Buffer): unknown {
  try {
    return JSON.parse(text.toString())
  } catch {
    return undefined
  }
}
