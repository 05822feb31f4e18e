/**
 * Writes multipart bodies: a document with its attachments, several revisions, results of a bulk read, ranges. Every
 * byte is the one that `docs/api.md` asks for, and content goes out as it is read, never whole.
 */
import { randomBytes } from 'node:crypto'

export interface MultipartAttachment {
  readonly name: string
  readonly contentType: string
  /** Of the bytes that `content` gives, which are those that are stored. */
  readonly length: number
  readonly encoding: 'gzip' | undefined
  content(): AsyncIterable<Buffer>
}

/** A document whose JSON announces the attachments that follow it, in this order. */
export interface MultipartSource {
  readonly json: Buffer
  readonly attachments: readonly MultipartAttachment[]
}

/** One place in a list of revisions; what failed says so in JSON. */
export type RevisionPart =
  | { readonly kind: 'document'; readonly id: string; readonly rev: string; readonly source: MultipartSource }
  | { readonly kind: 'failure'; readonly json: string }

/** One range of a content, both ends included. */
export interface ByteRange {
  readonly first: number
  readonly last: number
}

export interface RangedContent {
  readonly contentType: string
  /** Of the whole. */
  readonly length: number
  content(range: ByteRange): AsyncIterable<Buffer>
}

export type MultipartChunks = AsyncGenerator<string | Buffer, void, undefined>

/** So random that no content has it. */
export function newBoundary(): string {
  return randomBytes(16).toString('hex')
}

/** A document and its attachments, as `multipart/related`. */
export async function* relatedBody({ json, attachments }: MultipartSource, boundary: string): MultipartChunks {
  yield documentHead(boundary)
  yield json
  yield delimiter(boundary)
  for (const attachment of attachments) {
    yield attachmentHead(attachment)
    yield* attachment.content()
    yield delimiter(boundary)
  }
  yield CLOSE
}

/** The exact number of bytes of `relatedBody`. */
export function relatedLength({ json, attachments }: MultipartSource, boundary: string): number {
  const delimiterLength = Buffer.byteLength(delimiter(boundary))
  let length = Buffer.byteLength(documentHead(boundary)) + json.length + delimiterLength + CLOSE.length
  for (const attachment of attachments) {
    length += Buffer.byteLength(attachmentHead(attachment)) + attachment.length + delimiterLength
  }
  return length
}

/** The answer to `open_revs`, as `multipart/mixed`. */
export async function* openRevisionsBody(
  parts: AsyncIterable<RevisionPart> | Iterable<RevisionPart>,
  boundary: string,
  innerBoundary: () => string = newBoundary,
): MultipartChunks {
  yield `--${boundary}`
  for await (const part of parts) {
    const inner = innerBoundary()
    yield* revisionPart(part, inner, `Content-Type: multipart/related; boundary="${inner}"`)
    yield delimiter(boundary)
  }
  yield CLOSE
}

/** The answer to `_bulk_get`, as `multipart/mixed` or `multipart/related`; no entries, no bytes. */
export async function* bulkGetBody(
  parts: AsyncIterable<RevisionPart> | Iterable<RevisionPart>,
  boundary: string,
  innerBoundary: () => string = newBoundary,
): MultipartChunks {
  let isEmpty = true
  for await (const part of parts) {
    isEmpty = false
    const inner = innerBoundary()
    yield delimiter(boundary)
    yield* revisionPart(part, inner, `${revisionHeaders(part)}Content-Type: multipart/related; boundary=${inner}`)
  }
  if (!isEmpty) yield `${delimiter(boundary)}--\r\n`
}

/** Several ranges of a content, as `multipart/byteranges`, in the order in which they were asked for. */
export async function* byteRangesBody(
  { contentType, length, content }: RangedContent,
  ranges: readonly ByteRange[],
  boundary: string,
): MultipartChunks {
  yield `--${boundary}`
  for (const range of ranges) {
    const { first, last } = range
    yield `\r\nContent-Type: ${headerText(contentType)}\r\nContent-Range: bytes ${first}-${last}/${length}\r\n\r\n`
    yield* content(range)
    yield delimiter(boundary)
  }
  yield CLOSE
}

const CLOSE = '--'

function delimiter(boundary: string): string {
  return `\r\n--${boundary}`
}

function documentHead(boundary: string): string {
  return `--${boundary}\r\nContent-Type: application/json\r\n\r\n`
}

function attachmentHead({ name, contentType, length, encoding }: MultipartAttachment): string {
  const encodingLine = encoding === undefined ? '' : `\r\nContent-Encoding: ${encoding}`
  return (
    `\r\nContent-Disposition: attachment; ${filenameParameter(name)}` +
    `\r\nContent-Type: ${headerText(contentType)}\r\nContent-Length: ${length}${encodingLine}\r\n\r\n`
  )
}

/** What a part of a list has after its delimiter: JSON alone, or the document with what follows it. */
async function* revisionPart(part: RevisionPart, inner: string, headOfRelated: string): MultipartChunks {
  if (part.kind === 'failure') {
    yield `\r\nContent-Type: application/json; error="true"\r\n\r\n${part.json}`
    return
  }
  const { source } = part
  if (source.attachments.length === 0) {
    yield '\r\nContent-Type: application/json\r\n\r\n'
    yield source.json
    return
  }
  yield `\r\n${headOfRelated}\r\n\r\n`
  yield* relatedBody(source, inner)
}

function revisionHeaders(part: RevisionPart): string {
  if (part.kind === 'failure') return ''
  return `X-Doc-Id: ${headerText(part.id)}\r\nX-Rev-Id: ${headerText(part.rev)}\r\n`
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: what must not stand in a header are control characters
const CONTROL = /[\u0000-\u001f\u007f]/g

/** The plain form cannot say control characters; names that have them come in both forms. */
function filenameParameter(name: string): string {
  const plain = `filename="${headerText(name.replace(/["\\]/g, '\\$&'))}"`
  if (name.search(CONTROL) < 0) return plain
  return `${plain}; filename*=UTF-8''${encodeURIComponent(name.toWellFormed())}`
}

/** Names and types may hold anything, but a line of a header must stay one line. */
function headerText(text: string): string {
  return text.replace(CONTROL, (character) => `%${character.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`)
}
