/** The limit on the size of an attachment: of the bytes that come, and of what they unpack to where they come packed. */
import { RequestError } from '../../document/request-error.ts'

export interface ContentLimit {
  /** Of the attachment, for the refusal. */
  readonly name: string
  readonly bytes: number
}

export function checkContentSize(bytes: number, limit: ContentLimit): void {
  if (bytes > limit.bytes) throw new RequestError(413, 'attachment_too_large', limit.name)
}

/** The same content, refused as soon as it is larger. */
export async function* limitedContent(source: AsyncIterable<Buffer>, limit: ContentLimit): AsyncGenerator<Buffer> {
  let bytes = 0
  for await (const piece of source) {
    bytes += piece.length
    checkContentSize(bytes, limit)
    yield piece
  }
}
