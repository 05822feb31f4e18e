/** `_all_docs`: the list of documents, sent while it is read. */
import { createHash } from 'node:crypto'
import { type AllDocumentsQuery, type DocumentsWanted, listKeys, listRange } from '../database/all-documents.ts'
import type { Database } from '../database/database.ts'
import type { DatabaseView } from '../database/database-view.ts'
import { inlineText, stubText } from '../database/document-rendering.ts'
import { badRequest } from '../document/request-error.ts'
import { isObject } from '../encoding/json-value.ts'
import { type Answer, notModified, streamed } from './answer.ts'
import type { Call } from './call.ts'
import type { HttpContext } from './context.ts'
import { databaseOf } from './database-resource.ts'
import { jsonParameter } from './document-answer.ts'
import { queryParseError } from './query-error.ts'
import { readJson } from './request-body.ts'

export async function getAllDocuments(call: Call, context: HttpContext): Promise<Answer> {
  const keys = call.query('keys')
  return answer(call, context, keys === undefined ? undefined : keyList(jsonParameter(keys)))
}

export async function postAllDocuments(call: Call, context: HttpContext): Promise<Answer> {
  await databaseOf(call, context)
  const body = await readJson(call, context)
  if (!isObject(body)) throw badRequest('Request body must be a JSON object')
  if (!('keys' in body)) return getAllDocuments(call, context)
  return answer(call, context, keyList(body.keys))
}

function keyList(keys: unknown): readonly unknown[] {
  if (!Array.isArray(keys)) throw badRequest('`keys` member must be a array.')
  return keys
}

async function answer(call: Call, context: HttpContext, keys: readonly unknown[] | undefined): Promise<Answer> {
  const database = await databaseOf(call, context)
  const query = parseQuery(call, database, keys !== undefined)
  const view = database.view()
  try {
    view.reading?.check('list')
    const { updateSequence, documentCount } = await view.state()
    const tag = listTag(database.openedUs, updateSequence, call.url, keys)
    if (call.hasTag(tag)) {
      view.release()
      return notModified(tag)
    }
    const head: ListHead = {
      total: documentCount,
      updateSequence: query.updateSequence ? updateSequence : undefined,
      offset: undefined,
    }
    const chunks = keys
      ? keyChunks(view, chosenKeys(keys, query), head, query.documents)
      : listChunks(await listRange(database, view, query), head)
    return streamed(chunks, { headers: { ETag: tag }, release: () => view.release() })
  } catch (error) {
    view.release()
    throw error
  }
}

/** Stands for the state of the database and what was asked of it. */
function listTag(openedUs: number, updateSequence: number, url: string, keys: readonly unknown[] | undefined): string {
  const state = createHash('md5').update(JSON.stringify([openedUs, updateSequence, url, keys]))
  return `"${BigInt(`0x${state.digest('hex')}`)
    .toString(36)
    .toUpperCase()}"`
}

interface ListHead {
  readonly total: number
  readonly offset: number | undefined
  readonly updateSequence: number | undefined
}

function headText({ total, offset, updateSequence }: ListHead): string {
  const place = offset === undefined ? '' : `,"offset":${offset}`
  const state = updateSequence === undefined ? '' : `,"update_seq":${updateSequence}`
  return `{"total_rows":${total}${place}${state},"rows":[\r\n`
}

/** About as much as goes out at once. */
const CHUNK_CHARACTERS = 64 * 1024

async function* listChunks(
  { offset, rows }: { offset: number | undefined; rows(): AsyncGenerator<string[]> },
  head: ListHead,
): AsyncGenerator<string> {
  let chunk = headText({ ...head, offset })
  let separator = ''
  for await (const block of rows()) {
    if (block.length === 0) continue
    chunk += separator + block.join(',\r\n')
    separator = ',\r\n'
    if (chunk.length < CHUNK_CHARACTERS) continue
    yield chunk
    chunk = ''
  }
  yield `${chunk}\r\n]}\n`
}

/** With keys the offset says nothing: it is 0, and not there when there are no rows. */
function keyChunks(
  view: DatabaseView,
  keys: readonly unknown[],
  head: ListHead,
  documents: DocumentsWanted | undefined,
): AsyncGenerator<string> {
  const offset = keys.length > 0 ? 0 : undefined
  return listChunks({ offset, rows: () => listKeys(view, keys, documents) }, head)
}

function chosenKeys(keys: readonly unknown[], { descending, skip, limit }: AllDocumentsQuery): readonly unknown[] {
  return (descending ? keys.toReversed() : keys).slice(skip, skip + limit)
}

function parseQuery(call: Call, database: Database, hasKeys: boolean): AllDocumentsQuery & { updateSequence: boolean } {
  const key = idParameter(call, 'key')
  const start = idParameter(call, 'startkey', 'start_key')
  const end = idParameter(call, 'endkey', 'end_key')
  if (hasKeys && (key.given || start.given || end.given)) {
    throw queryParseError('`keys` is incompatible with `key`, `start_key` and `end_key`')
  }
  refuseViewParameters(call)
  const includesDocuments = call.queryBoolean('include_docs') ?? false
  const documents = {
    conflicts: call.queryBoolean('conflicts') ?? false,
    render: documentRenderer(database, {
      contents: call.queryBoolean('attachments') ?? false,
      encodingInfo: call.queryBoolean('att_encoding_info') ?? false,
    }),
  }
  return {
    start: key.id ?? start.id ?? call.query('startkey_docid') ?? call.query('start_key_doc_id'),
    end: key.id ?? end.id ?? call.query('endkey_docid') ?? call.query('end_key_doc_id'),
    inclusiveEnd: call.queryBoolean('inclusive_end') ?? true,
    descending: call.queryBoolean('descending') ?? false,
    skip: call.queryCount('skip') ?? 0,
    limit: call.queryCount('limit') ?? Number.POSITIVE_INFINITY,
    documents: includesDocuments ? documents : undefined,
    updateSequence: call.queryBoolean('update_seq') ?? false,
  }
}

/** How documents stand in a listing. */
function documentRenderer(
  database: Database,
  { contents, encodingInfo }: { readonly contents: boolean; readonly encodingInfo: boolean },
): DocumentsWanted['render'] {
  if (!contents) return (document) => stubText(document, { encodingInfo }).toString()
  return async (document) => {
    const pieces: string[] = []
    for await (const piece of inlineText(document, database.attachments, { encodingInfo }).chunks()) {
      pieces.push(piece.toString())
    }
    return pieces.join('')
  }
}

/** Parameters of views that make no sense here. */
function refuseViewParameters(call: Call): void {
  if (call.query('count') !== undefined) throw queryParseError('QS param `count` is not `limit`')
  const stale = call.query('stale')
  if (stale !== undefined && stale !== 'ok' && stale !== 'update_after') {
    throw queryParseError('Invalid value for `stale`.')
  }
  if (call.queryBoolean('reduce')) throw queryParseError('Reduce is invalid for map-only views.')
  if (call.queryBoolean('group') || call.queryCount('group_level')) {
    throw queryParseError('Invalid use of grouping on a map view.')
  }
}

/** JSON, or the plain text that it is; what is neither text is passed over. */
function idParameter(call: Call, ...names: string[]): { given: boolean; id: string | undefined } {
  const text = names.map((name) => call.query(name)).find((value) => value !== undefined)
  if (text === undefined) return { given: false, id: undefined }
  const value = plainOrJson(text)
  return { given: true, id: typeof value === 'string' ? value : undefined }
}

function plainOrJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}
