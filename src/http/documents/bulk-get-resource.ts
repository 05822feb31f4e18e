/** `_bulk_get`: many revisions of many documents in one request, each with its own result. */

import type { OpenedDocument } from '../../database/reading/document-text.ts'
import { inlineText, stubText } from '../../database/reading/document-text.ts'
import { openRevisionPortions, type RevisionPortions } from '../../database/reading/revision-portions.ts'
import { parseDocumentId, parseRevision, type RevisionId } from '../../document/ids.ts'
import { badRequest, notFound, RequestError } from '../../document/request-error.ts'
import { isObject } from '../../encoding/json/json-value.ts'
import { bulkGetBody, newBoundary, type RevisionPart } from '../../multipart/multipart-writer.ts'
import { readJsonObject, requireJsonType } from '../bodies/request-body.ts'
import { acceptsMultipart } from '../negotiation/acceptance.ts'
import { type Answer, enclosed, streamed } from '../server/answer.ts'
import { databaseOf } from '../server/authentication.ts'
import type { Call } from '../server/call.ts'
import type { HttpContext } from '../server/context.ts'
import { inDialect, statusOf } from '../server/errors.ts'
import { askedTogether, type BulkFailure, type BulkReading, failureOf, textsTogether } from './bulk-get-together.ts'
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
    // Each of its buffers is made for it.
    return asked ? streamed(textsTogether(reading, asked), { ownsChunks: true }) : streamed(resultTexts(reading, docs))
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

/** Dialect 1.6 sends JSON where `Accept` names it; dialect 3 sends JSON unless `Accept` names multipart. */
function wantsMultipart(call: Call): boolean {
  if (call.dialect === '1.6') return !call.acceptsJson
  return acceptsMultipart(call.header('accept'), 'mixed') || acceptsMultipart(call.header('accept'), 'related')
}

interface BulkResult extends Disposable {
  readonly id: unknown
  /** Whether the client wants only attachments that are newer than revisions it has. */
  readonly isSince: boolean
  /** Each document must be sent before the next one is read. */
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

async function* resultTexts(reading: BulkReading, entries: readonly unknown[]): AsyncGenerator<string | Buffer> {
  // Sent with the next piece.
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
