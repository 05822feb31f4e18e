/** The revision that a request names: in its body, its query or its headers, which must not disagree. */
import { namedRevision, type SentDocument } from '../document/document-fields.ts'
import { badRequest } from '../document/request-error.ts'
import { parseRevision, type RevisionId } from '../document/revision-id.ts'
import type { Call } from './call.ts'

/** Of the query alone. */
export function revisionParameter(call: Call): RevisionId | undefined {
  const text = call.query('rev')
  return text === undefined ? undefined : parseRevision(text)
}

export function namedParent(call: Call, document: SentDocument | undefined): RevisionId | undefined {
  const inBody = document && namedRevision(document)
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
  const tag = call.header('if-match')
  return tag === undefined ? undefined : parseRevision(tag.trim().replace(/^"(.*)"$/s, '$1'))
}
