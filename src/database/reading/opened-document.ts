/** A document that was read for a client, before it is rendered. */
import type { DocumentParts } from '../../document/document-text.ts'
import type { RevisionId } from '../../document/ids.ts'
import type { AttachmentRecord } from '../layout/stored-body.ts'

export interface OpenedDocument {
  readonly revision: RevisionId
  readonly deleted: boolean
  /** What its text is made of, all but the attachments. */
  readonly parts: DocumentParts
  readonly attachments: readonly AttachmentRecord[]
  /** Attachments of revisions up to this generation are known to the reader. */
  readonly knownGeneration: number
}
