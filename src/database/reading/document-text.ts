/**
 * The JSON text of a document: its stored text with the underscore members around it, attachments as stubs, inline, or marked
 * as following. The stored text is spliced in as it is, never parsed. Contents are streamed: a document with large
 * attachments is never whole in memory.
 */
import type { RevisionId, RevisionPath } from '../../document/ids.ts'
import type { RevisionNode } from '../../document/tree/branch.ts'
import { membersOf, quoteText, spliceObject } from '../../encoding/json/json-text-splice.ts'
import type { AttachmentContents } from '../attachments/attachment-store.ts'
import { type AttachmentRecord, camePacked } from '../layout/stored-body.ts'
import { gunzipped } from './gzip.ts'

/** A document that was read for a client, before it is rendered. */
export interface OpenedDocument {
  readonly revision: RevisionId
  readonly deleted: boolean
  /** What its text is made of, all but the attachments. */
  readonly parts: DocumentParts
  readonly attachments: readonly AttachmentRecord[]
  /** Attachments of revisions up to this generation are known to the reader. */
  readonly knownGeneration: number
}

export interface DocumentParts {
  readonly id: string
  readonly revision: RevisionId
  /** The stored text, an object without its underscore members. */
  readonly body: Buffer
  readonly deleted?: boolean | undefined
  readonly revisions?: RevisionPath | undefined
  /** The winner and its ancestors, newest first. */
  readonly revisionsInfo?: readonly RevisionNode[] | undefined
  /** Left out when empty, as the deleted ones are. */
  readonly conflicts?: readonly RevisionId[] | undefined
  readonly deletedConflicts?: readonly RevisionId[] | undefined
  readonly localSequence?: number | undefined
  /** The text of a JSON object; contents may make it large, so it is bytes. */
  readonly attachments?: Buffer | undefined
}

/** With `isLine` the text ends with a newline. */
export interface TextOptions {
  readonly isLine?: boolean
}

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

/** The members of a stub as text. */
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

/** The text with contents in Base64, and its length where that is known beforehand. */
export interface InlineText {
  readonly length: number | undefined
  chunks(): AsyncGenerator<string | Buffer>
}

export function inlineText(
  document: OpenedDocument,
  contents: AttachmentContents,
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
        else yield* base64(unpacked(contents, piece))
      }
    },
  }
}

/** The content as it was before it was packed. */
export function unpacked(contents: AttachmentContents, attachment: AttachmentRecord): AsyncIterable<Buffer> {
  const stored = contents.read(attachment)
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

/** The text before and after the members of a body, for a body that is not to be copied. */
function splitAroundBody(parts: DocumentParts, textWithoutBody: Buffer): [before: Buffer, after: Buffer] {
  const end = 1 + Buffer.byteLength(headOf(parts))
  return [Buffer.concat([textWithoutBody.subarray(0, end), COMMA]), textWithoutBody.subarray(end)]
}

const COMMA = Buffer.from(',')

function headOf({ id, revision }: DocumentParts): string {
  return `"_id":${quoteText(id)},"_rev":${quoteText(revision)}`
}

export function documentText(parts: DocumentParts, options?: TextOptions): Buffer {
  const head = headOf(parts)
  const { attachments } = parts
  if (attachments === undefined) return spliceObject([head, membersOf(parts.body), trailingMembers(parts)], options)
  const named = [ATTACHMENTS, attachments]
  return spliceObject([head, membersOf(parts.body), trailingMembers(parts), Buffer.concat(named)], options)
}

const ATTACHMENTS = Buffer.from('"_attachments":')

/** The names of statuses in `_revs_info`. */
const STATUS_NAMES = { live: 'available', deleted: 'deleted', missing: 'missing' } as const

function trailingMembers(parts: DocumentParts): string {
  const members: string[] = []
  if (parts.deleted) members.push('"_deleted":true')
  if (parts.revisions) members.push(`"_revisions":${revisionsText(parts.revisions)}`)
  if (parts.revisionsInfo) members.push(`"_revs_info":${revisionsInfoText(parts.revisionsInfo)}`)
  if (parts.conflicts?.length) members.push(`"_conflicts":${JSON.stringify(parts.conflicts)}`)
  if (parts.deletedConflicts?.length) members.push(`"_deleted_conflicts":${JSON.stringify(parts.deletedConflicts)}`)
  if (parts.localSequence !== undefined) members.push(`"_local_seq":${parts.localSequence}`)
  return members.join(',')
}

function revisionsText(path: RevisionPath): string {
  return JSON.stringify({ start: path.start, ids: path.hashes })
}

function revisionsInfoText(nodes: readonly RevisionNode[]): string {
  return JSON.stringify(nodes.map((node) => ({ rev: node.revision, status: STATUS_NAMES[node.status] })))
}
