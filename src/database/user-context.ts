/** Who sends a request: the authenticated name, if any, and its roles; and what one user may see and write of a database. */
import type { OpenedDocument } from './reading/document-text.ts'
import type { DocumentEdit, EditOutcome } from './writing/edit.ts'

export interface UserContext {
  /** Null if anonymous. */
  readonly name: string | null
  readonly roles: readonly string[]
  /** Set if there is no administrator, so that everybody may do everything. The roles are unchanged. */
  readonly isUnbound?: true
}

/** The role of server administrators; it passes every check. */
export const ADMIN_ROLE = '_admin'

export const ANONYMOUS: UserContext = { name: null, roles: [] }

/** The server itself, and everybody while there is no administrator. */
export const NAMELESS_ADMIN: UserContext = { name: null, roles: [ADMIN_ROLE] }

/** What a request is about to write: a document of its own, or attachments of one. */
export type WriteTarget = 'document' | 'attachment'

/** What one user may do. */
export interface DocumentAccess {
  /** Undefined where the user sees everything as it is. */
  readonly reading: ReadingAccess | undefined
  /** The source of a validation function whose rules this applies itself, so that it need not run. */
  readonly enforced?: string
  /** The largest body of a request that this user may send; undefined where all users have the same limit. */
  readonly largestRequest?: number
  /**
   * Throws the refusal where the user may not write this document, whatever it says: asked before a body is read. What may
   * be written is decided by `write`.
   */
  checkTarget?(id: string, what: WriteTarget): void
  /** Writes through `commit` what may be written; the outcomes are those of the edits, in their order. */
  write(edits: readonly DocumentEdit[], commit: Commit): Promise<EditOutcome[]>
}

export type Commit = (edits: readonly DocumentEdit[]) => Promise<EditOutcome[]>

/** Ways to see many documents at once. */
export type Overview = 'list' | 'changes' | 'design action'

export interface ReadingAccess {
  /** The document, what of it may be seen, or undefined where it must look as if there were none. May throw too. */
  readable(document: OpenedDocument): OpenedDocument | undefined
  /** Throws the refusal where the user may not look at documents in this way. */
  check(overview: Overview): void
  /** The text of a document in a list. */
  listed(document: OpenedDocument): string
}
