/** The limit on a single document. */
import type { SentDocument } from '../../document/document-fields.ts'
import { tooLarge } from '../../document/request-error.ts'
import type { HttpContext } from '../server/context.ts'
import { requestSettings } from '../server/request-settings.ts'

export function checkDocumentSize(document: SentDocument, context: HttpContext): void {
  checkDocumentSizes([document], context)
}

export function checkDocumentSizes(documents: readonly SentDocument[], { configuration }: HttpContext): void {
  const { largestDocument } = requestSettings(configuration)
  for (const { body } of documents) if (body.length > largestDocument) throw tooLarge()
}
