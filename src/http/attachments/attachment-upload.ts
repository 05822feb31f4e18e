/** The content of an attachment that is the whole body of a request. */

import { attachmentPolicy } from '../../database/attachments/attachment-edits.ts'
import type { StagedAttachment } from '../../database/attachments/attachment-store.ts'
import { checkContentSize } from '../../database/attachments/content-check.ts'
import type { Database } from '../../database/database.ts'
import { bodyPieces, sentLength } from '../bodies/request-body.ts'
import type { Call } from '../server/call.ts'
import type { HttpContext } from '../server/context.ts'
import { HttpError } from '../server/errors.ts'

/** Streams the body into the store and checks it against its Content-MD5, in the head or after the end. */
export async function stageBody(
  call: Call,
  { configuration }: HttpContext,
  database: Database,
  { name, contentType }: { readonly name: string; readonly contentType: string },
): Promise<StagedAttachment> {
  const encoding = contentEncoding(call)
  const policy = attachmentPolicy(configuration)
  const packLevel = encoding ? undefined : policy.levelFor(contentType)
  const limit = policy.limitFor(name)
  // Too long a Content-Length is refused before the body is sent.
  if (limit) checkContentSize(Number(call.header('content-length') ?? 0), limit)
  const staged = await database.attachments.stage(bodyPieces(call), {
    packLevel,
    encoding,
    limit,
    sentBytes: sentLength(call),
    freesPieces: true,
  })
  try {
    checkDigest(prefixed(call.header('content-md5')), staged.content.md5)
    checkDigest(prefixed(call.request.body.trailer('content-md5')), staged.content.md5)
    return staged
  } catch (error) {
    staged.release()
    throw error
  }
}

/** A digest as stubs have it, `md5-…`; of other kinds nothing can be said. */
export function checkDigest(digest: string | undefined, md5: string): void {
  if (digest?.startsWith('md5-') && digest !== `md5-${md5}`) {
    throw new HttpError(400, 'content_md5_mismatch', 'Possible message corruption.')
  }
}

function prefixed(md5: string | undefined): string | undefined {
  return md5 === undefined ? undefined : `md5-${md5.trim()}`
}

function contentEncoding(call: Call): 'gzip' | undefined {
  const encoding = call.header('content-encoding')?.trim().toLowerCase() ?? 'identity'
  if (encoding === 'gzip') return 'gzip'
  if (encoding === 'identity') return undefined
  throw new HttpError(415, 'bad_content_type', 'Only gzip and identity content-encodings are supported')
}
