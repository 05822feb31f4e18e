/** The limit on a single document. */
import type { SentDocument } from '../document/document-fields.ts'
import { RequestError } from '../document/request-error.ts'
import type { HttpContext } from './context.ts'

export function checkDocumentSize({ body, id }: SentDocument, { configuration }: HttpContext, named?: string): void {
  if (body.length <= configuration.integer('service', 'max_document_size')) return
  throw new RequestError(413, 'document_too_large', named ?? id ?? '')
}
