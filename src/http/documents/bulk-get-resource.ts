/** `_bulk_get`: many revisions of many documents in one request, each found or not by itself. */

import type { Dialect } from '../../config/dialect.ts'
import type { Database } from '../../database/database.ts'
import { inlineText, stubText } from '../../database/reading/document-rendering.ts'
import { type AskedRevisions, type OpenedRevisions, openMany } from '../../database/reading/open-many.ts'
import type { OpenedDocument } from '../../database/reading/opened-document.ts'
import { openRevisionPortions, type RevisionPortions } from '../../database/reading/revision-portions.ts'
import { isLocalId, parseDocumentId, parseRevision, type RevisionId } from '../../document/ids.ts'
import { badRequest, notFound, RequestError } from '../../document/request-error.ts'
import { joinText, quoteText } from '../../encoding/json/json-text-splice.ts'
import { isObject } from '../../encoding/json/json-value.ts'
import { bulkGetBody, newBoundary, type RevisionPart } from '../../multipart/multipart-writer.ts'
import { readJsonObject, requireJsonType } from '../bodies/request-body.ts'
import { acceptsMultipart } from '../negotiation/acceptance.ts'
import { type Answer, enclosed, streamed } from '../server/answer.ts'
import { databaseOf } from '../server/authentication.ts'
import type { Call } from '../server/call.ts'
import type { HttpContext } from '../server/context.ts'
import { inDialect, statusOf } from '../server/errors.ts'
import { multipartSource, revisionList } from './document-reading.ts'

export async function bulkGet(call: Call, context: HttpContext): Promise<Answer> {
  const database = await databaseOf(call)
  requireJsonType(call)
  for (const name of ['rev', 'open_revs', 'atts_since', 'new_edits', 'w']) {
    if (call.query(name) !== undefined) throw badRequest(`"${name}" query parameter is not acceptable`)
  }
  const { docs } = await readJsonObject(call, context)
  if (docs === undefined) throw badRequest("Missing JSON list of 'docs'.")
  if (!Array.isArray(docs)) throw badRequest('`docs` parameter must be an array.')
  const reading: BulkReading = {
    database,
    dialect: call.dialect,
    isMultipart: wantsMultipart(call),
    revisions: call.querySwitch('revs'),
    latest: call.querySwitch('latest'),
    contents: call.querySwitch('attachments'),
    encodingInfo: call.querySwitch('att_encoding_info'),
  }
  if (!reading.isMultipart) {
    const asked = askedTogether(reading, docs)
    return streamed(asked ? textsTogether(reading, asked) : resultTexts(reading, docs))
  }
  const boundary = newBoundary()
  const type =
    acceptsMultipart(call.header('accept'), 'related') && !acceptsMultipart(call.header('accept'), 'mixed')
      ? 'related'
      : 'mixed'
  return streamed(bulkGetBody(resultParts(reading, docs), boundary), {
    headers: { 'Content-Type': `multipart/${type}; boundary="${boundary}"` },
  })
}

/** Dialect 1.6 sends JSON to who names it, and dialect 3 to who does not name multipart. */
function wantsMultipart(call: Call): boolean {
  if (call.dialect === '1.6') return !call.acceptsJson
  return acceptsMultipart(call.header('accept'), 'mixed') || acceptsMultipart(call.header('accept'), 'related')
}

interface BulkReading {
  readonly database: Database
  readonly dialect: Dialect
  readonly isMultipart: boolean
  readonly revisions: boolean
  readonly latest: boolean
  readonly contents: boolean
  readonly encodingInfo: boolean
}

/** What replicators ask for: one revision of each document, without contents. Undefined where there is more to it. */
function askedTogether({ database, contents }: BulkReading, entries: readonly unknown[]): AskedRevisions[] | undefined {
  if (contents || database.reading) return undefined
  const asked: AskedRevisions[] = []
  for (const entry of entries) {
    const plain = plainEntry(entry)
    if (!plain) return undefined
    asked.push(plain)
  }
  return asked
}

function plainEntry(entry: unknown): AskedRevisions | undefined {
  if (!isObject(entry) || entry.atts_since !== undefined || entry.rev === undefined) return undefined
  try {
    const id = parseDocumentId(entry.id)
    return isLocalId(id) ? undefined : { id, revisions: [parseRevision(entry.rev)] }
  } catch (error) {
    if (error instanceof RequestError) return undefined
    throw error
  }
}

/** Documents that are opened at once. */
const ASKED_TOGETHER = 250

async function* textsTogether(reading: BulkReading, asked: readonly AskedRevisions[]): AsyncGenerator<string | Buffer> {
  // Goes out with what comes next.
  let before = '{"results":['
  for (let done = 0; done < asked.length; ) {
    const portion = await openPortion(reading, asked.slice(done, done + ASKED_TOGETHER))
    const pieces: (string | Buffer)[] = []
    for (const { id, documents, missing } of portion) {
      before += `${done++ === 0 ? '' : ','}{"id":${quoteText(id)},"docs":[`
      let separator = ''
      for (const document of documents) {
        pieces.push(`${before}${separator}{"ok":`, stubText(document, reading))
        before = '}'
        separator = ','
      }
      for (const rev of missing) {
        before += `${separator}{"error":${JSON.stringify(failureOf({ id, rev, error: notFound('missing') }))}}`
        separator = ','
      }
      before += ']}'
    }
    yield joinText(pieces)
  }
  yield `${before}]}\n`
}

async function openPortion(
  { database, latest, revisions }: BulkReading,
  asked: readonly AskedRevisions[],
): Promise<OpenedRevisions[]> {
  using view = database.view()
  return await openMany(view, asked, { latest, revisions })
}

interface BulkFailure {
  readonly id: unknown
  readonly rev: unknown
  readonly error: RequestError
}

interface BulkResult extends Disposable {
  readonly id: unknown
  /** Whether contents are wanted that came after revisions the client has. */
  readonly isSince: boolean
  /** A document is to be sent before the next one is asked for. */
  items(): AsyncIterable<OpenedDocument | BulkFailure> | Iterable<BulkFailure>
}

async function readEntry(reading: BulkReading, entry: unknown): Promise<BulkResult> {
  if (!isObject(entry)) return failed(null, null, badRequest('document must be a JSON object'))
  const { id, rev } = entry
  if (id === undefined) return failed(null, null, badRequest('document id missed'))
  try {
    return await readRevisions(reading, parseDocumentId(id), rev, entry.atts_since)
  } catch (error) {
    if (error instanceof RequestError) return failed(id, rev ?? 'undefined', inDialect(error, reading.dialect))
    throw error
  }
}

async function readRevisions(reading: BulkReading, id: string, rev: unknown, since: unknown): Promise<BulkResult> {
  const wanted = rev === undefined ? 'all' : [parseRevision(rev)]
  const known: RevisionId[] = since === undefined ? [] : revisionList(since, 'atts_since')
  const { revisions, latest } = reading
  const contents = sendsContents(reading, since)
  const found = await openRevisionPortions(reading.database, id, wanted, { revisions, latest, known, contents })
  if (found.isEmpty) return failed(id, 'undefined', notFound('missing'))
  const release = () => found[Symbol.dispose]()
  return { id, isSince: since !== undefined, items: () => itemsOf(id, found), [Symbol.dispose]: release }
}

async function* itemsOf(id: string, found: RevisionPortions): AsyncGenerator<OpenedDocument | BulkFailure> {
  for await (const portion of found.portions()) {
    for (const each of portion)
      yield each.found ? each.document : { id, rev: each.revision, error: notFound('missing') }
  }
}

function sendsContents({ isMultipart, contents }: BulkReading, since: unknown): boolean {
  return isMultipart || contents || since !== undefined
}

function failed(id: unknown, rev: unknown, error: RequestError): BulkResult {
  return { id, isSince: false, items: () => [{ id, rev, error }], [Symbol.dispose]: () => {} }
}

function failureOf({ id, rev, error }: BulkFailure) {
  return { id, rev, error: error.error, reason: error.reason }
}

async function* resultTexts(reading: BulkReading, entries: readonly unknown[]): AsyncGenerator<string | Buffer> {
  // Goes out with what comes next.
  let before = '{"results":['
  for (const [i, entry] of entries.entries()) {
    using result = await readEntry(reading, entry)
    const { id, isSince, items } = result
    before += `${i === 0 ? '' : ','}{"id":${JSON.stringify(id)},"docs":[`
    let separator = ''
    for await (const item of items()) {
      before += separator
      if ('error' in item) yield `${before}{"error":${JSON.stringify(failureOf(item))}}`
      else if (reading.contents || isSince) {
        yield `${before}{"ok":`
        yield* inlineText(item, reading.database.attachments, reading).chunks()
        yield '}'
      } else yield enclosed(`${before}{"ok":`, stubText(item, reading), '}')
      before = ''
      separator = ','
    }
    before += ']}'
  }
  yield `${before}]}\n`
}

async function* resultParts(reading: BulkReading, entries: readonly unknown[]): AsyncGenerator<RevisionPart> {
  for (const entry of entries) {
    using result = await readEntry(reading, entry)
    for await (const item of result.items()) {
      if ('error' in item) {
        yield { kind: 'failure', json: JSON.stringify({ ...failureOf(item), status: statusOf(item.error) }) }
        continue
      }
      const source = multipartSource(reading.database, item)
      yield { kind: 'document', id: item.parts.id, rev: item.revision, source }
    }
  }
}
