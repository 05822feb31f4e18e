/** What views must show, found out the slow way: every document of the database is mapped, all rows sorted and reduced. */
import type { Database } from '../../src/database/database.ts'
import { decodeRecord } from '../../src/database/layout/document-record.ts'
import { afterPrefix, DOCUMENT_PREFIX, idOfDocumentKey } from '../../src/database/layout/keys.ts'
import { stubText } from '../../src/database/reading/document-text.ts'
import { openDocument } from '../../src/database/reading/open-document.ts'
import { collationKey, rawCollationKey } from '../../src/encoding/collation/collation-key.ts'
import type { JsonValue } from '../../src/encoding/json/json-value.ts'
import type { KeyRange } from '../../src/storage/store.ts'
import type { ViewDesign } from '../../src/views/design/view-design.ts'
import { emittedBy, reducedBy } from './local-functions.ts'
import type { Row } from './test-views.ts'

export async function naiveRows(database: Database, design: ViewDesign, name: string): Promise<Row[]> {
  const map = design.maps[design.views.get(name)?.number ?? -1]
  if (!map) throw new Error(`There is no view ${name}.`)
  const rows: Row[] = []
  for (const document of await mappedDocuments(database, design)) {
    for (const [key, value] of emittedBy(map.source, document)) {
      rows.push(JSON.parse(JSON.stringify({ id: document._id, key, value })))
    }
  }
  const keyOf = map.collation === 'raw' ? rawCollationKey : collationKey
  return rows
    .map((row) => ({ row, rank: [keyOf(json(row.key)), Buffer.from(row.id), rawCollationKey(json(row.value))] }))
    .sort((a, b) => compareAll(a.rank, b.rank))
    .map(({ row }) => row)
}

export function naiveReduction(source: string, rows: readonly Row[]): unknown {
  const values = rows.map(({ value }) => value)
  if (rows.length === 0) return undefined
  if (source === '_count') return rows.length
  if (source === '_sum') return values.reduce((sum: number, value) => sum + Number(value), 0)
  if (source === '_stats') {
    const numbers = values.map(Number)
    const total = (list: readonly number[]) => list.reduce((sum, each) => sum + each, 0)
    const squares = numbers.map((number) => number * number)
    return {
      sum: total(numbers),
      count: numbers.length,
      min: Math.min(...numbers),
      max: Math.max(...numbers),
      sumsqr: total(squares),
    }
  }
  if (source === '_first') return values[0]
  if (source === '_last') return values.at(-1)
  if (source === '_approx_count_distinct') return new Set(rows.map(({ key }) => JSON.stringify(key))).size
  const keys = rows.map(({ key, id }) => [key, id])
  return JSON.parse(reducedBy(source, keys, values, false))
}

interface Document {
  readonly _id: string
}

async function mappedDocuments(database: Database, design: ViewDesign): Promise<Document[]> {
  const documents: Document[] = []
  using view = database.view()
  let rest: KeyRange | undefined = { from: DOCUMENT_PREFIX, to: afterPrefix(DOCUMENT_PREFIX) }
  while (rest) {
    const page = await view.snapshot.page(rest)
    for (let row = 0; row < page.length; row++) {
      const id = idOfDocumentKey(page.key(row))
      if (decodeRecord(page.value(row)).deleted || (id.startsWith('_design/') && !design.includeDesign)) continue
      const options = { conflicts: true, deletedConflicts: true, localSequence: design.localSequence }
      documents.push(JSON.parse(stubText(await openDocument(view, id, options)).toString()))
    }
    rest = page.next
  }
  return documents
}

function json(value: unknown): JsonValue {
  return JSON.parse(JSON.stringify(value))
}

function compareAll(a: readonly Buffer[], b: readonly Buffer[]): number {
  for (const [i, part] of a.entries()) {
    const order = Buffer.compare(part, b[i] ?? Buffer.alloc(0))
    if (order !== 0) return order
  }
  return 0
}
