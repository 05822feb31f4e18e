/** Document ids: any text but the empty one; those that begin with an underscore belong to the server. */
import { illegalDocumentId } from './request-error.ts'

declare const brand: unique symbol
export type DocumentId = string & { readonly [brand]: 'DocumentId' }

/** Checks the id of a document that is to be written. Looking one up needs no check: it is just not found. */
export function parseDocumentId(value: unknown): DocumentId {
  if (value === '') throw illegalDocumentId('Document id must not be empty')
  if (typeof value !== 'string') throw illegalDocumentId('Document id must be a string')
  if (!value.isWellFormed()) throw illegalDocumentId('Document id must be valid UTF-8')
  if (value === '_design/' || value === '_local/') throw illegalDocumentId(`Illegal document id \`${value}\``)
  if (value.startsWith('_') && !value.startsWith('_design/') && !value.startsWith('_local/')) {
    throw illegalDocumentId('Only reserved document ids may start with underscore.')
  }
  return value as DocumentId
}

export function isDesignId(id: string): boolean {
  return id.startsWith('_design/')
}

/** All ids of design documents: from the first on, up to the last without it. */
export const DESIGN_IDS = { first: '_design/', last: '_design0' } as const

export function isLocalId(id: string): boolean {
  return id.startsWith('_local/')
}
