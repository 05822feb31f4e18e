/**
 * Renders an opened document as JSON text: attachments as stubs, inline, or marked as following. Contents are streamed: a
 * document with large attachments is never whole in memory.
 */

import { documentText, splitAroundBody, type TextOptions } from '../../document/document-text.ts'
import { membersOf, quoteText } from '../../encoding/json/json-text-splice.ts'
import type { AttachmentStore } from '../attachments/attachment-store.ts'
import { type AttachmentRecord, camePacked } from '../layout/stored-body.ts'
import { gunzipped } from './gzip.ts'
import type { OpenedDocument } from './opened-document.ts'

export interface RenderingOptions extends TextOptions {
  /** Tell how attachments are packed. */
  readonly encodingInfo?: boolean
}

/** The text with attachments as stubs. */
export function stubText(document: OpenedDocument, options: RenderingOptions = {}): Buffer {
  const { encodingInfo = false } = options
  return textWith(document, (attachment) => stubMembers(attachment, 'stub', encodingInfo), options)
}

/** The same in pieces, for a large document: its body is not copied into another text. */
export function stubPieces(document: OpenedDocument, options: RenderingOptions = {}): Buffer[] {
  const { parts } = document
  const members = membersOf(parts.body)
  const around = stubText({ ...document, parts: { ...parts, body: EMPTY_BODY } }, options)
  const [before, after] = splitAroundBody(parts, around)
  const pieces = [before]
  for (let at = 0; at < members.length; at += PIECE_BYTES) pieces.push(members.subarray(at, at + PIECE_BYTES))
  pieces.push(after)
  return pieces
}

const EMPTY_BODY = Buffer.from('{}')
const PIECE_BYTES = 1024 * 1024

/** The members of a stub, for who puts a text together. */
export function stubMembersText(attachment: AttachmentRecord): string {
  return stubMembers(attachment, 'stub', false)
}

/** The text that says which attachments follow it. */
export function followsText(document: OpenedDocument): Buffer {
  return textWith(document, (attachment) =>
    stubMembers(attachment, isWanted(document, attachment) ? 'follows' : 'stub', true),
  )
}

/** The attachments whose contents the reader does not have. */
export function wantedAttachments(document: OpenedDocument): AttachmentRecord[] {
  return document.attachments.filter((attachment) => isWanted(document, attachment))
}

/** The text with contents in Base64, and how long it is where that can be told beforehand. */
export interface InlineText {
  readonly length: number | undefined
  chunks(): AsyncGenerator<string | Buffer>
}

export function inlineText(
  document: OpenedDocument,
  store: AttachmentStore,
  { encodingInfo = false }: RenderingOptions = {},
): InlineText {
  if (wantedAttachments(document).length === 0) {
    const text = stubText(document, { encodingInfo })
    return {
      length: text.length,
      async *chunks() {
        yield text
      },
    }
  }
  const pieces = inlinePieces(document, encodingInfo)
  return {
    length: pieces.reduce<number | undefined>((sum, piece) => {
      const size = typeof piece === 'string' ? Buffer.byteLength(piece) : base64Length(piece)
      return sum === undefined || size === undefined ? undefined : sum + size
    }, 0),
    async *chunks() {
      for (const piece of pieces) {
        if (typeof piece === 'string') yield piece
        else yield* base64(unpacked(store, piece))
      }
    },
  }
}

/** The content as it was before it was packed. */
export function unpacked(store: AttachmentStore, attachment: AttachmentRecord): AsyncIterable<Buffer> {
  const stored = store.read(attachment)
  return attachment.encoding === 'gzip' ? gunzipped(stored) : stored
}

/** How many bytes the content has unpacked; undefined where it came packed, in releases that did not look. */
export function unpackedLength(attachment: AttachmentRecord): number | undefined {
  const { length, storedLength } = attachment
  if (!camePacked(attachment)) return length
  return attachment.unpackedLength ?? (length === storedLength ? undefined : length)
}

function isWanted({ knownGeneration }: OpenedDocument, { revpos }: AttachmentRecord): boolean {
  return revpos > knownGeneration || knownGeneration === 0
}

function textWith(
  { parts, attachments }: OpenedDocument,
  members: (attachment: AttachmentRecord) => string,
  options?: TextOptions,
): Buffer {
  if (attachments.length === 0) return documentText(parts, options)
  const entries = attachments.map((attachment) => `${quoteText(attachment.name)}:{${members(attachment)}}`)
  return documentText({ ...parts, attachments: Buffer.from(`{${entries.join(',')}}`) }, options)
}

/** Text, and in between the attachments whose contents belong there. */
export function inlinePieces(document: OpenedDocument, encodingInfo: boolean): (string | AttachmentRecord)[] {
  const pieces: (string | AttachmentRecord)[] = []
  const text = documentText(document.parts).toString()
  let before = `${text.slice(0, -1)},"_attachments":{`
  for (const [i, attachment] of document.attachments.entries()) {
    before += `${i === 0 ? '' : ','}${quoteText(attachment.name)}:{`
    if (isWanted(document, attachment)) {
      pieces.push(`${before}${commonMembers(attachment)},"data":"`, attachment)
      before = `"${encodingInfo ? encodingMembers(attachment) : ''}}`
    } else before += `${stubMembers(attachment, 'stub', encodingInfo)}}`
  }
  pieces.push(`${before}}}`)
  return pieces
}

function commonMembers({ contentType, revpos, md5 }: AttachmentRecord): string {
  return `"content_type":${quoteText(contentType)},"revpos":${revpos},"digest":"md5-${md5}"`
}

function stubMembers(attachment: AttachmentRecord, kind: 'stub' | 'follows', encodingInfo: boolean): string {
  // Who receives the stored bytes checks them against the digest that announces them.
  const announced = kind === 'follows' ? { ...attachment, md5: attachment.storedMd5 } : attachment
  const known = `${commonMembers(announced)},"length":${attachment.length},"${kind}":true`
  return encodingInfo ? known + encodingMembers(attachment) : known
}

function encodingMembers({ encoding, storedLength }: AttachmentRecord): string {
  return encoding ? `,"encoding":"${encoding}","encoded_length":${storedLength}` : ''
}

function base64Length(attachment: AttachmentRecord): number | undefined {
  const length = unpackedLength(attachment)
  return length === undefined ? undefined : 4 * Math.ceil(length / 3)
}

/** Base64 of a stream: three bytes make four characters, so what does not fill three waits for more. */
async function* base64(source: AsyncIterable<Buffer>): AsyncGenerator<string> {
  let rest: Buffer = Buffer.alloc(0)
  for await (const piece of source) {
    const bytes = rest.length > 0 ? Buffer.concat([rest, piece]) : piece
    const whole = bytes.length - (bytes.length % 3)
    if (whole > 0) yield bytes.toString('base64', 0, whole)
    rest = bytes.subarray(whole)
  }
  if (rest.length > 0) yield rest.toString('base64')
}
