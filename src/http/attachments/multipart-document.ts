/** A document sent as `multipart/related`: its JSON first, then the contents of its attachments. */
import {
  type AttachmentEntry,
  attachmentPolicy,
  DEFAULT_CONTENT_TYPE,
  entryOf,
} from '../../database/attachments/attachment-edits.ts'
import type { StagedAttachment } from '../../database/attachments/attachment-store.ts'
import type { Database } from '../../database/database.ts'
import type { SentDocument } from '../../document/document-fields.ts'
import { badRequest } from '../../document/request-error.ts'
import { boundaryOf, type Part, possibleFilenames, readParts } from '../../multipart/multipart-reader.ts'
import { documentIn, type ReadingLimits } from '../../scan/json-body.ts'
import { bodyPieces, collect, readingLimits } from '../bodies/request-body.ts'
import type { Call } from '../server/call.ts'
import type { HttpContext } from '../server/context.ts'
import { checkDigest } from './attachment-upload.ts'

export interface ReceivedDocument {
  readonly document: SentDocument
  /** Contents that were sent as parts, by name. */
  readonly followed: ReadonlyMap<string, StagedAttachment>
  /** To be called when the document was written, or will not be. */
  release(): void
}

type Followed = Extract<AttachmentEntry, { kind: 'follows' }>

export async function receiveRelated(call: Call, context: HttpContext, database: Database): Promise<ReceivedDocument> {
  const boundary = boundaryOf(call.header('content-type') ?? '')
  if (boundary === undefined) throw badRequest('The Content-Type names no boundary.')
  const followed = new Map<string, StagedAttachment>()
  const release = () => {
    for (const staged of followed.values()) staged.release()
  }
  try {
    let document: SentDocument | undefined
    let awaited: AwaitedParts | undefined
    for await (const part of readParts(bodyPieces(call), boundary)) {
      if (!document || !awaited) {
        document = await readJsonPart(part, context, readingLimits(call, context))
        awaited = new AwaitedParts(document)
        continue
      }
      const entry = awaited.take(part)
      followed.set(entry.name, await stagePart(database, context, entry, part))
    }
    if (!document || !awaited) throw badRequest('The multipart body has no document.')
    awaited.end()
    return { document, followed, release }
  } catch (error) {
    release()
    throw error
  }
}

function entryFromField({ name, text, data }: SentDocument['attachments'][number]): AttachmentEntry {
  return entryOf(name, JSON.parse(text.toString()), data)
}

async function readJsonPart(
  { headers, body }: Part,
  { configuration }: HttpContext,
  limits: ReadingLimits,
): Promise<SentDocument> {
  const [type = ''] = (headers.get('content-type') ?? '').split(';')
  if (type.trim().toLowerCase() !== 'application/json') {
    throw badRequest('The first part of a multipart document must be application/json.')
  }
  const text = await collect(body, configuration.integer('httpd', 'max_http_request_size'), limits.memory)
  return documentIn(text, limits)
}

/** The attachments whose contents are still to come: by their file names where the first part has one, else in order. */
class AwaitedParts {
  readonly #entries: Followed[]
  #byName: boolean | undefined

  constructor(document: SentDocument) {
    this.#entries = document.attachments.map(entryFromField).filter((entry) => entry.kind === 'follows')
  }

  take({ headers }: Part): Followed {
    const names = possibleFilenames(headers.get('content-disposition') ?? '')
    this.#byName ??= names.length > 0
    const index = this.#byName ? this.#entries.findIndex(({ name }) => names.includes(name)) : 0
    const entry = this.#entries[index]
    if (entry && (names.length === 0 || names.includes(entry.name))) {
      this.#entries.splice(index, 1)
      return entry
    }
    if (this.#entries.length === 0) throw badRequest('There are more parts than attachments with follows.')
    const [name] = names
    throw badRequest(
      name === undefined
        ? 'A part has no file name, and others have one.'
        : `The part ${JSON.stringify(name)} is not an attachment with follows, or was sent twice.`,
    )
  }

  /** No more parts come. */
  end(): void {
    const [missing] = this.#entries
    if (missing) throw badRequest(`The part with the content of attachment ${missing.name} is missing.`)
  }
}

function checkLength(name: string, expected: number | undefined, received: number): void {
  if (expected === undefined || expected === received) return
  throw badRequest(`Attachment ${name} has ${received} bytes instead of ${expected}.`)
}

async function stagePart(
  database: Database,
  { configuration }: HttpContext,
  entry: Followed,
  { body }: Part,
): Promise<StagedAttachment> {
  const { name, contentType = DEFAULT_CONTENT_TYPE, encoding, length } = entry
  const policy = attachmentPolicy(configuration)
  const packLevel = encoding ? undefined : policy.levelFor(contentType)
  const limit = policy.limitFor(name)
  const staged = await database.attachments.stage(body, { packLevel, encoding, length, limit })
  try {
    const { storedLength, unpackedLength = staged.content.length } = staged.content
    const received = encoding ? storedLength : staged.content.length
    checkLength(name, encoding ? entry.encodedLength : length, received)
    // A peer that does not know the decompressed size sends the compressed one.
    if (encoding && length !== storedLength) checkLength(name, length, unpackedLength)
    checkDigest(entry.digest, staged.content.md5)
    return staged
  } catch (error) {
    staged.release()
    throw error
  }
}
