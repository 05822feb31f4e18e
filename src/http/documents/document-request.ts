/** What a request says about its document: id, revision, and the check of its size. */

import type { SentDocument } from '../../document/document-fields.ts'
import { isDesignId, isLocalId, parseRevision, type RevisionId } from '../../document/ids.ts'
import { badRequest, tooLarge } from '../../document/request-error.ts'
import { type Answer, redirect } from '../server/answer.ts'
import type { Call } from '../server/call.ts'
import type { HttpContext } from '../server/context.ts'

/** `/{db}/{docid}`, `/{db}/_design/{name}` or `/{db}/_local/{name}`. */
export function documentIdOf(call: Call): string {
  const { segments } = call
  const id = segments.length === 2 ? call.segment(1) : segments.slice(1).join('/')
  if (id === '_local' || id === '_local/') refuseLocalRoot()
  return id
}

/** A document and an attachment of it: all segments after the document's id are the name. */
export function attachmentPathOf(call: Call): { id: string; name: string } {
  const isDesign = call.segment(1) === '_design'
  const id = isDesign ? call.segments.slice(1, 3).join('/') : call.segment(1)
  if (isLocalId(id)) refuseLocalAttachment()
  return { id, name: call.segments.slice(isDesign ? 3 : 2).join('/') }
}

/** Whether the client escaped the slash in the id of a design document. */
export function isEscapedDesign(call: Call): boolean {
  return isDesignId(call.segment(1)) && ESCAPED_DESIGN.test(call.requestedUrl)
}

/** Redirects to the path as the client sees it, which virtual hosts map again. */
export function redirectToDesign(call: Call): Answer {
  const target = call.requestedUrl.replace(/^https?:\/\/[^/?]*/i, '').replace(ESCAPED_DESIGN, '_design/')
  return redirect(301, call.origin + target)
}

const ESCAPED_DESIGN = /_design%2f/i

/** The path segments of a document: the slash after `_design` and `_local` separates two of them. */
export function documentSegments(id: string): string[] {
  if (!isDesignId(id) && !isLocalId(id)) return [id]
  const slash = id.indexOf('/')
  return [id.slice(0, slash), id.slice(slash + 1)]
}

export function refuseLocalRoot(): never {
  throw badRequest('Invalid _local document id.')
}

export function refuseLocalAttachment(): never {
  throw badRequest('_local documents do not accept attachments.')
}

/** The revision of the query alone. */
export function revisionParameter(call: Call): RevisionId | undefined {
  const text = call.query('rev')
  return text === undefined ? undefined : parseRevision(text)
}

/** The revision of the query, or else of `If-Match`, where that names a revision and not the digest of a content. */
export function revisionToRead(call: Call): RevisionId | undefined {
  const tag = matchedTag(call)
  return revisionParameter(call) ?? (tag !== undefined && /^\d+-/.test(tag) ? parseRevision(tag) : undefined)
}

/** The revision to be replaced: in the body, the query or `If-Match`, which must not disagree. */
export function namedParent(call: Call, document: SentDocument | undefined): RevisionId | undefined {
  const inBody = document?.revision
  const inQuery = revisionParameter(call)
  if (inBody !== undefined && inQuery !== undefined && inBody !== inQuery) {
    throw badRequest('Document rev from request body and query string have different values')
  }
  const named = inBody ?? inQuery
  const inHeader = matchedRevision(call)
  if (named !== undefined && inHeader !== undefined && named !== inHeader) {
    throw badRequest('Document rev and etag have different values')
  }
  return named ?? inHeader
}

function matchedRevision(call: Call): RevisionId | undefined {
  const tag = matchedTag(call)
  return tag === undefined ? undefined : parseRevision(tag)
}

function matchedTag(call: Call): string | undefined {
  return call
    .header('if-match')
    ?.trim()
    .replace(/^"(.*)"$/s, '$1')
}

export function checkDocumentSize(document: SentDocument, context: HttpContext): void {
  checkDocumentSizes([document], context)
}

export function checkDocumentSizes(documents: readonly SentDocument[], { settings }: HttpContext): void {
  const { largestDocument } = settings.current
  for (const { body } of documents) if (body.length > largestDocument) throw tooLarge()
}
