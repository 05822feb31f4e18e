/** `_index`: selector indexes are made, listed and removed. They are views of design documents. */

import type { Database } from '../../database/database.ts'
import { parseDocumentId, parseRevision } from '../../document/ids.ts'
import { badRequest, notFound, RequestError } from '../../document/request-error.ts'
import { documentIn } from '../../scan/json-body.ts'
import { type NewIndex, readNewIndex, withIndex, withoutIndex } from '../../views/find/index-creation.ts'
import { ALL_DOCUMENTS_LISTING, indexListing, selectorIndexes } from '../../views/find/selector-indexes.ts'
import { readJsonObject, requireJsonType } from '../bodies/request-body.ts'
import { withEdit, writeOne } from '../documents/document-writing.ts'
import { type Answer, json } from '../server/answer.ts'
import { databaseOf } from '../server/authentication.ts'
import type { Call } from '../server/call.ts'
import type { HttpContext } from '../server/context.ts'
import { HttpError, MethodNotAllowedError } from '../server/errors.ts'

type Members = Readonly<Record<string, unknown>>

/** `GET /{db}/_index` */
export async function listIndexes(call: Call): Promise<Answer> {
  const database = await databaseOf(call)
  const limit = listParameter(call, 'limit', 1) ?? Number.POSITIVE_INFINITY
  const skip = listParameter(call, 'skip', 0) ?? 0
  const indexes = [ALL_DOCUMENTS_LISTING, ...(await selectorIndexes(database)).map(indexListing)]
  return json({ total_rows: indexes.length, indexes: indexes.slice(skip, skip + limit) })
}

function listParameter(call: Call, name: string, least: number): number | undefined {
  const text = call.query(name)
  if (text === undefined) return undefined
  const value = Number(text)
  if (/^\d{1,15}$/.test(text) && value >= least) return value
  throw new HttpError(500, 'invalid_list_index_params', 'Index parameter ranges: limit > 1, skip > 0')
}

/** `POST /{db}/_index` */
export async function createIndex(call: Call, context: HttpContext): Promise<Answer> {
  requireJsonType(call)
  const database = await databaseOf(call)
  const index = readNewIndex(await readJsonObject(call, context), database)
  parseDocumentId(index.design)
  const current = await currentDesign(database, index.design)
  const changed = withIndex(current, index)
  if (changed) await save(call, database, context, index.design, current, changed)
  return json({ result: changed ? 'created' : 'exists', id: index.design, name: index.name } satisfies CreatedIndex)
}

interface CreatedIndex extends Pick<NewIndex, 'name'> {
  readonly result: 'created' | 'exists'
  readonly id: string
}

/** `DELETE /{db}/_index/{ddoc}/json/{name}`, with `_design/` or without it. */
export async function deleteIndex(call: Call, context: HttpContext): Promise<Answer> {
  const database = await databaseOf(call)
  const [first = '', ...rest] = call.segments.slice(2)
  const [ddoc = '', type, name, ...others] = first === '_design' ? rest : [first, ...rest]
  if (type === undefined || name === undefined || others.length > 0) throw notFound()
  if (type !== 'json') throw notFound()
  const id = designId(ddoc)
  const current = await currentDesign(database, id)
  const changed = current && withoutIndex(current, name)
  if (!changed) throw notFound()
  await save(call, database, context, id, current, changed)
  return json({ ok: true })
}

/** `POST /{db}/_index/_bulk_delete` */
export async function deleteIndexes(call: Call, context: HttpContext): Promise<Answer> {
  if (call.segment(2) !== '_bulk_delete') throw notFound()
  requireJsonType(call)
  const database = await databaseOf(call)
  const { docids } = await readJsonObject(call, context)
  if (!Array.isArray(docids)) throw badRequest('`docids` member must be an array.')
  const success: object[] = []
  const fail: object[] = []
  for (const docid of docids) {
    const id = typeof docid === 'string' ? designId(docid) : ''
    const outcome = id === '' ? 'not_found' : await removeDesign(call, database, context, id)
    if (outcome === 'removed') success.push({ id, ok: true })
    else fail.push({ id: id === '' ? docid : id, error: outcome })
  }
  return json({ success, fail })
}

/** Where a path below `_index` has other methods only. */
export function refuseIndexPath(call: Call): never {
  if (call.segment(2) === '_bulk_delete' && call.segments.length === 3) throw new MethodNotAllowedError('POST')
  throw notFound()
}

/** A conflict of one does not stop the others. */
async function removeDesign(
  call: Call,
  database: Database,
  context: HttpContext,
  id: string,
): Promise<'removed' | 'not_found' | typeof SAVING_CONFLICT> {
  const current = await currentDesign(database, id)
  if (current?.language !== 'query') return 'not_found'
  try {
    await save(call, database, context, id, current, 'empty')
    return 'removed'
  } catch (error) {
    if (error instanceof HttpError && error.error === SAVING_CONFLICT) return SAVING_CONFLICT
    throw error
  }
}

const SAVING_CONFLICT = 'error_saving_ddoc'

function designId(ddoc: string): string {
  return ddoc.startsWith('_design/') ? ddoc : `_design/${ddoc}`
}

/** Undefined where there is none. */
async function currentDesign(database: Database, id: string): Promise<Members | undefined> {
  try {
    return (await database.currentDesign(id)).members
  } catch (error) {
    if (error instanceof RequestError && error.kind === 'not found') return undefined
    throw error
  }
}

/** Writes the design document as its reader would, or deletes it. */
async function save(
  call: Call,
  database: Database,
  context: HttpContext,
  id: string,
  current: Members | undefined,
  changed: Members | 'empty',
): Promise<void> {
  const parent = current === undefined ? undefined : parseRevision(current._rev)
  const members = changed === 'empty' ? { _id: id, _rev: parent, _deleted: true } : { ...changed, _id: id }
  const documentId = parseDocumentId(id)
  const document = await documentIn(Buffer.from(JSON.stringify(members)), {}, documentId)
  try {
    const sent = { id: documentId, document, mode: { parent } }
    await withEdit(call, context, database, sent, (edit) => writeOne(database, edit))
  } catch (error) {
    if (!(error instanceof RequestError && error.kind === 'conflict')) throw error
    const reason = 'Encountered a conflict while saving the design document.'
    throw new HttpError(500, SAVING_CONFLICT, reason)
  }
}
