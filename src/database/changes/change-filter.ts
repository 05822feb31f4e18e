/** Which changes a reader wants: those of certain documents, or those whose documents pass. */
import { isDesignId } from '../../document/document-id.ts'

export type ChangeFilter = IdFilter | DocumentFilter | SelectorFilter

/** Decides by the id alone. */
export interface IdFilter {
  readonly by: 'id'
  passes(id: string): boolean
  /** The documents that pass, where they can be named: they are looked up instead of being looked for. */
  readonly documents: readonly string[] | 'designs'
}

/** Decides by the documents, given as JSON texts. */
export interface DocumentFilter {
  readonly by: 'document'
  passes(documents: readonly string[]): Promise<readonly boolean[]>
}

/** Decides by the bytes of a document's JSON text, at once. */
export interface SelectorFilter {
  readonly by: 'text'
  passes(document: Buffer): boolean
}

export const DESIGN_FILTER: IdFilter = { by: 'id', passes: isDesignId, documents: 'designs' }

export function documentIdFilter(ids: readonly string[]): IdFilter {
  const wanted = new Set(ids)
  return { by: 'id', passes: (id) => wanted.has(id), documents: [...wanted] }
}
