/**
 * Deletes documents whose time is over. A member of each document says when: Unix seconds, or a date and time as ISO 8601.
 * Changed documents are put into a queue that is ordered by that time, so nothing is looked at again before it is due. An
 * expired document is deleted as a client would delete it: the deletion is in `_changes`, and replicates.
 */
import { EMPTY_BODY_TERM } from '../../document/revisions/new-revision.ts'
import { isObject } from '../../encoding/json/json-value.ts'
import type { KeyRange } from '../../storage/store.ts'
import type { Database } from '../database.ts'
import { DatabaseView } from '../database-view.ts'
import { decodeChange } from '../layout/change-row.ts'
import { afterPrefix, CHANGE_PREFIX, changeKey, EXPIRY_PREFIX, expiryKey, idOfExpiryKey } from '../layout/keys.ts'
import type { DocumentEdit } from '../writing/edit.ts'

export interface ExpiryPass {
  readonly expired: number
}

const DOCUMENTS_A_TURN = 200
/** Writers wait meanwhile. */
const TURN_MS = 20
const EMPTY_BODY = Buffer.from('{}')

/** All rows of the queue. */
const QUEUE: KeyRange = { from: EXPIRY_PREFIX, to: Buffer.from([EXPIRY_PREFIX[0] ?? 0, (EXPIRY_PREFIX[1] ?? 0) + 1]) }

export async function expireDocuments(
  database: Database,
  { field, nowMs, signal }: { readonly field: string; readonly nowMs: number; readonly signal: AbortSignal },
): Promise<ExpiryPass> {
  const { expiry } = await database.latestState()
  if (expiry && expiry.field !== field) await forgetExpiry(database)
  while (await enqueueSome(database, field)) signal.throwIfAborted()
  let expired = 0
  for (;;) {
    signal.throwIfAborted()
    const turn = await expireSome(database, field, nowMs)
    expired += turn.expired
    if (turn.isEnd) return { expired }
  }
}

/** Documents do not expire any more, or by another member: the queue goes. */
export async function forgetExpiry(database: Database): Promise<void> {
  const forgetSome = () =>
    database.exclusive(async (snapshot, state) => {
      const page = await snapshot.page(QUEUE)
      const deletes = Array.from({ length: page.length }, (_, row) => Buffer.from(page.key(row)))
      return { changes: { deletes }, state: { ...state, expiry: undefined }, result: page.next !== undefined }
    })
  while (await forgetSome());
}

/** Puts documents that changed since the last time into the queue; resolves to whether there are more. */
async function enqueueSome(database: Database, field: string): Promise<boolean> {
  return database.exclusive(async (snapshot, state) => {
    const after = state.expiry?.through ?? 0
    const unchanged = { changes: {}, state, result: false }
    if (state.expiry && after >= state.updateSequence) return unchanged
    const range = { from: changeKey(after + 1), to: afterPrefix(CHANGE_PREFIX) }
    const page = await snapshot.page(range, { rows: DOCUMENTS_A_TURN })
    const changes = Array.from({ length: page.length }, (_, row) => decodeChange(page.value(row)))
    const view = new DatabaseView(snapshot)
    const live = changes.filter(({ deleted, id }) => !deleted && !id.startsWith('_design/'))
    const puts: (readonly [Buffer, Buffer])[] = []
    const begunMs = performance.now()
    let through = changes.at(-1)?.sequence ?? after
    let isCut = false
    for (const { id, body, sequence } of live) {
      // One at a time: they may be large.
      const timeMs = expiryIn((await view.findBody(body))?.text, field)
      if (timeMs !== undefined) puts.push([expiryKey(timeMs, id), NOTHING])
      isCut = performance.now() - begunMs >= TURN_MS && sequence < through
      if (!isCut) continue
      through = sequence
      break
    }
    const isEnd = page.next === undefined && !isCut
    if (isEnd) through = state.updateSequence
    return { changes: { puts }, state: { ...state, expiry: { field, through } }, result: !isEnd }
  })
}

/** Deletes those that are due now, and takes them out of the queue. */
async function expireSome(
  database: Database,
  field: string,
  nowMs: number,
): Promise<{ readonly expired: number; readonly isEnd: boolean }> {
  const edits: DocumentEdit[] = []
  const keys: Buffer[] = []
  let isEnd = true
  {
    using view = database.view()
    const page = await view.snapshot.page(
      { from: QUEUE.from, to: expiryKey(Math.floor(nowMs) + 1, '') },
      { rows: DOCUMENTS_A_TURN },
    )
    isEnd = page.next === undefined
    for (let row = 0; row < page.length; row++) keys.push(Buffer.from(page.key(row)))
    for (const id of new Set(keys.map(idOfExpiryKey))) {
      const edit = await dueEdit(view, id, field, nowMs)
      if (edit) edits.push(edit)
    }
  }
  if (keys.length === 0) return { expired: 0, isEnd }
  const outcomes = edits.length > 0 ? await database.write(edits) : []
  // A document that was changed in the meantime was queued again with its new time.
  await database.exclusive(async (_, state) => ({ changes: { deletes: keys }, state, result: undefined }))
  return { expired: outcomes.filter(({ outcome }) => outcome === 'written').length, isEnd }
}

/** Undefined where the document is gone, or has another time now. */
async function dueEdit(
  view: DatabaseView,
  id: string,
  field: string,
  nowMs: number,
): Promise<DocumentEdit | undefined> {
  const record = await view.record(id)
  if (!record || record.deleted) return undefined
  const timeMs = expiryIn((await view.body(record.body)).text, field)
  if (timeMs === undefined || timeMs > nowMs) return undefined
  return { kind: 'interactive', id, parent: record.winner, deleted: true, body: EMPTY_BODY, term: EMPTY_BODY_TERM }
}

const NOTHING = Buffer.alloc(0)
const ESCAPE = Buffer.from('\\u')

/** Times that a queue can hold: from 1970 on, for as long as dates go. */
const LATEST_MS = 8.64e15

/** When a document expires; undefined where it does not say, or nothing that is a time. */
export function expiryIn(text: Buffer | undefined, field: string): number | undefined {
  // Most documents do not have it: that is seen without reading all of them. Names may be written with escapes.
  if (!text?.includes(JSON.stringify(field)) && !text?.includes(ESCAPE)) return undefined
  const document: unknown = JSON.parse(text.toString())
  const value = isObject(document) && Object.hasOwn(document, field) ? document[field] : undefined
  const timeMs = typeof value === 'number' ? value * 1000 : typeof value === 'string' ? dateIn(value) : Number.NaN
  return timeMs >= 0 && timeMs <= LATEST_MS ? Math.floor(timeMs) : undefined
}

const ISO_TIME = /^\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:\d\d))?$/

function dateIn(text: string): number {
  return ISO_TIME.test(text) ? Date.parse(text) : Number.NaN
}
