/** A document that comes as `multipart/related`: its JSON first, then the contents that it announces. */
import { type AttachmentEntry, DEFAULT_CONTENT_TYPE, entryOf } from '../database/attachment-edits.ts'
import type { StagedAttachment } from '../database/attachment-store.ts'
import type { Database } from '../database/database.ts'
import { parseDocument, type SentDocument } from '../document/document-fields.ts'
import { badRequest } from '../document/request-error.ts'
import { checkDigest } from './attachment-upload.ts'
import type { Call } from './call.ts'
import type { HttpContext } from './context.ts'
import { boundaryOf, dispositionFilename, type Part, readParts } from './multipart-reader.ts'
import { packingPolicy } from './packing-policy.ts'
import { bodyPieces, collect, parsing } from './request-body.ts'

export interface ReceivedDocument {
  readonly document: SentDocument
  /** Contents that came in parts of their own, by name. */
  readonly followed: ReadonlyMap<string, StagedAttachment>
  /** To be called when the document was written, or will not be. */
  release(): void
}

type Followed = Extract<AttachmentEntry, { kind: 'follows' }>

export function isRelated(call: Call): boolean {
  return /^multipart\/related\s*;/i.test(call.header('content-type') ?? '')
}

export async function receiveRelated(call: Call, context: HttpContext, database: Database): Promise<ReceivedDocument> {
  const boundary = boundaryOf(call.header('content-type') ?? '')
  if (boundary === undefined) throw badRequest('The Content-Type names no boundary.')
  const followed = new Map<string, StagedAttachment>()
  const release = () => {
    for (const staged of followed.values()) staged.release()
  }
  try {
    let document: SentDocument | undefined
    let awaited: Followed[] = []
    for await (const part of readParts(bodyPieces(call), boundary)) {
      if (!document) {
        document = await readJsonPart(part, context)
        awaited = document.attachments.map(entryFromField).filter((entry) => entry.kind === 'follows')
        continue
      }
      const entry = takeEntry(awaited, part)
      followed.set(entry.name, await stagePart(database, context, entry, part))
    }
    if (!document) throw badRequest('The multipart body has no document.')
    if (awaited.length > 0) throw badRequest(`The content of attachment ${awaited[0]!.name} does not follow.`)
    return { document, followed, release }
  } catch (error) {
    release()
    throw error
  }
}

function entryFromField({ name, text }: SentDocument['attachments'][number]): AttachmentEntry {
  return entryOf(name, JSON.parse(text.toString()))
}

async function readJsonPart({ headers, body }: Part, { configuration }: HttpContext): Promise<SentDocument> {
  const [type = ''] = (headers.get('content-type') ?? '').split(';')
  if (type.trim().toLowerCase() !== 'application/json') {
    throw badRequest('The first part of a multipart document must be application/json.')
  }
  const text = await collect(body, configuration.integer('httpd', 'max_http_request_size'))
  return parsing(() => parseDocument(text))
}

/** By its file name where it has one that is awaited; otherwise parts come in the order of the document. */
function takeEntry(awaited: Followed[], { headers }: Part): Followed {
  const name = dispositionFilename(headers.get('content-disposition') ?? '')
  const index = awaited.findIndex((entry) => entry.name === name)
  const [entry] = awaited.splice(Math.max(0, index), 1)
  if (!entry) throw badRequest('More parts come than the document announces.')
  return entry
}

async function stagePart(
  database: Database,
  { configuration }: HttpContext,
  entry: Followed,
  { body }: Part,
): Promise<StagedAttachment> {
  const { name, contentType = DEFAULT_CONTENT_TYPE, encoding, length } = entry
  const packLevel = encoding ? undefined : packingPolicy(configuration).levelFor(contentType)
  const staged = await database.attachments.stage(body, { packLevel, encoding, length })
  try {
    const expected = encoding ? entry.encodedLength : length
    const received = encoding ? staged.content.storedLength : staged.content.length
    if (expected !== undefined && expected !== received) {
      throw badRequest(`Attachment ${name} has ${received} bytes, and not ${expected}.`)
    }
    checkDigest(entry.digest, staged.content.md5)
    return staged
  } catch (error) {
    staged.release()
    throw error
  }
}
