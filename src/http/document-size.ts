/** The limit on a single document. */
import type { SentDocument } from '../document/document-fields.ts'
import type { HttpContext } from './context.ts'
import { tooLarge } from './request-body.ts'

export function checkDocumentSize({ body }: SentDocument, { configuration }: HttpContext): void {
  if (body.length > configuration.integer('service', 'max_document_size')) throw tooLarge()
}
