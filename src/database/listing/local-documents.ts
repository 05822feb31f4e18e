/**
 * `_local_docs`, or a range of it, in the order of ids. Local documents are not counted, so skipped ones are read. When the
 * client stalls, the list continues after the last document sent from a newer state.
 */

import { quoteText } from '../../encoding/json/json-text-splice.ts'
import type { KeyRange } from '../../storage/store.ts'
import type { LastingView } from '../database-view.ts'
import { decodeLocal, type LocalDocument, localRevision } from '../layout/document-record.ts'
import { afterPrefix, idOfLocalKey, LOCAL_PREFIX } from '../layout/keys.ts'
import { documentText } from '../reading/document-text.ts'
import { idBounds, type ListedIds } from './listing-range.ts'

export interface LocalDocumentsQuery extends ListedIds {
  readonly skip: number
  readonly limit: number
  readonly includeDocs: boolean
}

/** Rows as JSON texts, a page at a time. */
export async function* listLocalRange(view: LastingView, query: LocalDocumentsQuery): AsyncGenerator<string[]> {
  let { skip, limit } = query
  for (let rest: KeyRange | undefined = rangeOf(query); rest && limit > 0; ) {
    const page = await view.snapshot.page(rest)
    const rows: string[] = []
    for (let row = skip; row < page.length && rows.length < limit; row++) {
      rows.push(localRow(idOfLocalKey(page.key(row)), decodeLocal(page.value(row)), query.includeDocs))
    }
    skip -= Math.min(skip, page.length)
    limit -= rows.length
    rest = page.next
    if (rows.length > 0) yield rows
  }
}

/** One row for each key, whether there is such a document or not. */
export async function* listLocalKeys(
  view: LastingView,
  keys: readonly unknown[],
  includeDocs: boolean,
): AsyncGenerator<string[]> {
  for (const key of keys) {
    const found = typeof key === 'string' ? await view.local(key) : undefined
    if (typeof key === 'string' && found) yield [localRow(key, found, includeDocs)]
    else yield [`{"key":${JSON.stringify(key)},"error":"not_found"}`]
  }
}

function localRow(id: string, { count, text }: LocalDocument, includeDocs: boolean): string {
  const quoted = quoteText(id)
  const revision = localRevision(count)
  const row = `{"id":${quoted},"key":${quoted},"value":{"rev":${quoteText(revision)}}`
  return includeDocs ? `${row},"doc":${documentText({ id, revision, body: text }).toString()}}` : `${row}}`
}

function rangeOf(query: LocalDocumentsQuery): KeyRange {
  const { from, to } = idBounds(query)
  return {
    from: from ? Buffer.concat([LOCAL_PREFIX, from]) : LOCAL_PREFIX,
    to: to ? Buffer.concat([LOCAL_PREFIX, to]) : afterPrefix(LOCAL_PREFIX),
    reverse: query.descending,
  }
}
