/** The revision that a request names: in its body, its query or its headers, which must not disagree. */
import type { SentDocument } from '../../document/document-fields.ts'
import { badRequest } from '../../document/request-error.ts'
import { parseRevision, type RevisionId } from '../../document/revisions/revision-id.ts'
import type { Call } from '../server/call.ts'

/** Of the query alone. */
export function revisionParameter(call: Call): RevisionId | undefined {
  const text = call.query('rev')
  return text === undefined ? undefined : parseRevision(text)
}

/** Of the query, or else of `If-Match`, where that names a revision and not the digest of a content. */
export function revisionToRead(call: Call): RevisionId | undefined {
  const tag = matchedTag(call)
  return revisionParameter(call) ?? (tag !== undefined && /^\d+-/.test(tag) ? parseRevision(tag) : undefined)
}

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
