/** The document that a show or update function is called with, and what the reply to its call depends on. */
import type { DatabaseView } from '../../database/database-view.ts'
import { stubText } from '../../database/reading/document-rendering.ts'
import { openDocument } from '../../database/reading/open-document.ts'
import { RequestError } from '../../document/request-error.ts'
import type { RevisionId } from '../../document/revisions/revision-id.ts'
import { entityTag } from '../../encoding/entity-tag.ts'
import { authenticationOf } from '../server/authentication.ts'
import type { Call } from '../server/call.ts'

export interface CalledDocument {
  /** Null where there is no such document, or none any more. */
  readonly text: string | null
  readonly revision: RevisionId | null
}

export async function calledDocument(view: DatabaseView, id: string | null): Promise<CalledDocument> {
  if (id === null) return NONE
  try {
    const document = await openDocument(view, id, { revisions: true, conflicts: true })
    return { text: stubText(document).toString(), revision: document.revision }
  } catch (error) {
    if (error instanceof RequestError && error.status === 404) return NONE
    throw error
  }
}

const NONE: CalledDocument = { text: null, revision: null }

/** The tag of a reply that a function makes of these for this client. */
export function functionTag(call: Call, ...made: readonly unknown[]): string {
  const { name, roles } = authenticationOf(call).user
  return entityTag(made, call.header('accept') ?? null, name, roles)
}
