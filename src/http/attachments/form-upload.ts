/** `POST /{db}/{docid}`: a form upload from a browser, only from pages of this server. */

import {
  attachmentPolicy,
  checkedContentType,
  DEFAULT_CONTENT_TYPE,
} from '../../database/attachments/attachment-edits.ts'
import type { StagedAttachment } from '../../database/attachments/attachment-store.ts'
import type { Database } from '../../database/database.ts'
import type { EditedAttachment } from '../../database/writing/edit.ts'
import { checkedAttachmentName, type SentDocument } from '../../document/document-fields.ts'
import { isDesignId, isLocalId, parseDocumentId, parseRevision, type RevisionId } from '../../document/ids.ts'
import { badRequest, notFound } from '../../document/request-error.ts'
import {
  boundaryOf,
  dispositionFilename,
  headerParameter,
  type Part,
  readParts,
} from '../../multipart/multipart-reader.ts'
import type { MemoryLease } from '../../runtime/memory-budget.ts'
import { documentIn } from '../../scan/json-body.ts'
import { bodyPieces, collect } from '../bodies/request-body.ts'
import type { Answer } from '../server/answer.ts'
import { databaseOf } from '../server/authentication.ts'
import type { Call } from '../server/call.ts'
import type { HttpContext } from '../server/context.ts'
import { HttpError } from '../server/errors.ts'
import { documentIdOf, refuseLocalAttachment } from '../server/route.ts'
import { writeWithAttachments } from './attachment-resource.ts'

export async function uploadForm(call: Call, context: HttpContext): Promise<Answer> {
  const path = documentIdOf(call)
  const database = await databaseOf(call)
  // An unknown name with an underscore is not a document that forms can be sent to.
  if (path.startsWith('_') && !isDesignId(path) && !isLocalId(path)) throw notFound(`There is no resource ${path}.`)
  checkReferer(call)
  if (isLocalId(path)) refuseLocalAttachment()
  const id = parseDocumentId(path)
  database.checkTarget(id, 'attachment')
  const form = new Form(database, context, call.memory)
  try {
    for await (const part of readParts(bodyPieces(call), formBoundary(call))) await form.add(part)
    return await writeWithAttachments(call, database, { id, ...form.result() })
  } finally {
    form.release()
  }
}

function checkReferer(call: Call): void {
  const referer = call.header('referer')
  if (referer === undefined) throw badRequest('Referer header required.')
  if (!URL.canParse(referer) || new URL(referer).host !== call.header('host')) {
    throw badRequest('Referer header must match host.')
  }
}

function formBoundary(call: Call): string {
  const type = call.header('content-type') ?? ''
  const boundary = /^multipart\/form-data\s*;/i.test(type) ? boundaryOf(type) : undefined
  if (boundary === undefined) {
    throw new HttpError(415, 'bad_content_type', 'Content-Type must be multipart/form-data')
  }
  return boundary
}

/** The fields that were sent: `_rev` or `_doc`, and files as `_attachments`. */
class Form {
  readonly #database: Database
  readonly #context: HttpContext
  readonly #memory: MemoryLease | undefined
  readonly #staged: { readonly name: string; readonly contentType: string; readonly staged: StagedAttachment }[] = []
  #revision: RevisionId | undefined
  #document: SentDocument | undefined
  /** Whether the revision field was sent; it may be empty. */
  #isNamed = false

  constructor(database: Database, context: HttpContext, memory: MemoryLease | undefined) {
    this.#memory = memory
    this.#database = database
    this.#context = context
  }

  async add({ headers, body }: Part): Promise<void> {
    const { configuration } = this.#context
    const disposition = headers.get('content-disposition') ?? ''
    const field = headerParameter(disposition, 'name')
    const limit = configuration.integer('httpd', 'max_http_request_size')
    if (field === '_rev') {
      const text = (await collect(body, limit, this.#memory)).toString().trim()
      this.#isNamed = true
      if (text !== '') this.#revision = parseRevision(text)
    } else if (field === '_doc') {
      const text = await collect(body, limit, this.#memory)
      this.#document = await documentIn(text, { memory: this.#memory })
    } else if (field === '_attachments') {
      const name = dispositionFilename(disposition)
      // A browser sends the field of a file that was not chosen, without a name.
      if (!name) return
      checkedAttachmentName(name)
      const contentType = checkedContentType(name, headers.get('content-type') ?? DEFAULT_CONTENT_TYPE)
      const policy = attachmentPolicy(configuration)
      const options = { packLevel: policy.levelFor(contentType), limit: policy.limitFor(name) }
      const staged = await this.#database.attachments.stage(body, options)
      this.#staged.push({ name, contentType, staged })
    }
  }

  result(): { parent: RevisionId | undefined; document: SentDocument | undefined; added: EditedAttachment[] } {
    if (!this.#isNamed && !this.#document) throw badRequest('The form has neither _rev nor _doc.')
    return {
      parent: this.#revision ?? this.#document?.revision,
      document: this.#document,
      added: this.#staged.map(({ name, contentType, staged }) => ({
        ...staged.content,
        name,
        contentType,
        revpos: undefined,
        puts: staged.puts,
      })),
    }
  }

  release(): void {
    for (const { staged } of this.#staged) staged.release()
  }
}
