/** Which document a path names. */
import { isDesignId, isLocalId } from '../../document/document-id.ts'
import { badRequest } from '../../document/request-error.ts'
import { type Answer, redirect } from '../server/answer.ts'
import type { Call } from '../server/call.ts'

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

/** Whether the client escaped the slash of a design document's id: it has another address then. */
export function isEscapedDesign(call: Call): boolean {
  return isDesignId(call.segment(1)) && ESCAPED_DESIGN.test(call.requestedUrl)
}

/** To the address as the client knows it: a virtual host leads on from there. */
export function redirectToDesign(call: Call): Answer {
  const target = call.requestedUrl.replace(/^https?:\/\/[^/?]*/i, '').replace(ESCAPED_DESIGN, '_design/')
  return redirect(301, call.origin + target)
}

const ESCAPED_DESIGN = /_design%2f/i

/** The segments of a document's address: the slash after `_design` and `_local` is one of the path. */
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
