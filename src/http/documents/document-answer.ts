/** A document as a reply: with stubs, with contents in its JSON, or with contents in parts of their own. */
import type { Database } from '../../database/database.ts'
import {
  followsText,
  inlineText,
  stubPieces,
  stubText,
  wantedAttachments,
} from '../../database/reading/document-rendering.ts'
import type { OpenedDocument } from '../../database/reading/opened-document.ts'
import { badRequest } from '../../document/request-error.ts'
import { parseRevision, type RevisionId } from '../../document/revisions/revision-id.ts'
import { type MultipartSource, newBoundary, relatedBody, relatedLength } from '../../multipart/multipart-writer.ts'
import { acceptsMultipart } from '../negotiation/acceptance.ts'
import { type Answer, type Headers, streamed } from '../server/answer.ts'
import type { Call } from '../server/call.ts'

/** What is wanted of attachments' contents. */
export interface ContentsWanted {
  /** Revisions that the client has: contents that came with them are not wanted. */
  readonly known: readonly RevisionId[]
}

/** Undefined when stubs will do. */
export function contentsWanted(call: Call): ContentsWanted | undefined {
  const since = call.query('atts_since')
  if (since !== undefined) return { known: revisionList(jsonParameter(since), 'atts_since') }
  return call.querySwitch('attachments') ? { known: [] } : undefined
}

/** A JSON array of revisions. */
export function revisionList(value: unknown, name: string): RevisionId[] {
  if (!Array.isArray(value)) throw badRequest(`${name} must be a JSON array of revisions`)
  return value.map(parseRevision)
}

export function jsonParameter(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw badRequest('invalid_json')
  }
}

export function stubAnswer(call: Call, document: OpenedDocument, headers: Headers): Answer {
  const options = { encodingInfo: call.querySwitch('att_encoding_info'), isLine: true }
  if (document.parts.body.length > LARGE_BODY_BYTES) return piecesAnswer(stubPieces(document, options), headers)
  return { kind: 'whole', status: 200, headers, body: stubText(document, options) }
}

/** Beyond it another copy of a body takes several milliseconds. */
const LARGE_BODY_BYTES = 4 * 1024 * 1024

function piecesAnswer(pieces: readonly Buffer[], headers: Headers): Answer {
  const length = pieces.reduce((sum, piece) => sum + piece.length, 0)
  async function* chunks() {
    yield* pieces
  }
  return streamed(chunks(), { headers: { ...headers, 'Content-Length': String(length) } })
}

/** `release` is called when the contents were sent. */
export function contentsAnswer(
  call: Call,
  database: Database,
  document: OpenedDocument,
  headers: Headers,
  release: () => void,
): Answer {
  if (document.attachments.length > 0 && acceptsMultipart(call, 'related')) {
    return relatedAnswer(database, document, headers, release)
  }
  const { length, chunks } = inlineText(document, database.attachments, {
    encodingInfo: call.querySwitch('att_encoding_info'),
  })
  async function* lines() {
    yield* chunks()
    yield '\n'
  }
  return streamed(lines(), {
    headers: length === undefined ? headers : { ...headers, 'Content-Length': String(length + 1) },
    release,
  })
}

function relatedAnswer(database: Database, document: OpenedDocument, headers: Headers, release: () => void): Answer {
  const source = multipartSource(database, document)
  if (source.attachments.length === 0) {
    release()
    const type = { 'Content-Type': 'application/json' }
    return { kind: 'whole', status: 200, headers: { ...headers, ...type }, body: source.json }
  }
  const boundary = newBoundary()
  return streamed(relatedBody(source, boundary), {
    headers: {
      ...headers,
      'Content-Type': `multipart/related; boundary="${boundary}"`,
      'Content-Length': String(relatedLength(source, boundary)),
    },
    release,
  })
}

/** The document with the contents that the client does not have, as they are stored. */
export function multipartSource(database: Database, document: OpenedDocument): MultipartSource {
  return {
    json: followsText(document),
    attachments: wantedAttachments(document).map((attachment) => ({
      name: attachment.name,
      contentType: attachment.contentType,
      length: attachment.storedLength,
      encoding: attachment.encoding,
      content: () => database.attachments.read(attachment),
    })),
  }
}
