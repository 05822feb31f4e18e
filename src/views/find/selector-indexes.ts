/** The selector indexes of a database: the views of its design documents whose language is `query`. */
import type { Database } from '../../database/database.ts'
import { languageOf } from '../../database/design/design-document.ts'
import { summarizeRecord } from '../../database/layout/document-record.ts'
import { documentKey, idOfDocumentKey } from '../../database/layout/keys.ts'
import { RequestError } from '../../document/request-error.ts'
import { isObject, type JsonValue } from '../../encoding/json/json-value.ts'
import {
  definitionOfView,
  type IndexDefinition,
  SELECTOR_LANGUAGE,
  sortJson,
} from '../../selectors/index-definition.ts'
import type { KeyRange, Page } from '../../storage/store.ts'
import { type DesignPlace, type ViewDesign, viewDesign } from '../design/view-design.ts'

export interface SelectorIndex {
  readonly design: ViewDesign
  /** Of the view. */
  readonly name: string
  readonly definition: IndexDefinition
  /** The names of its fields. */
  readonly columns: readonly string[]
}

/** In the order of design documents and names. Read once for as long as no design document is written. */
export function selectorIndexes(database: Database): Promise<readonly SelectorIndex[]> {
  const { designsMark } = database
  const known = listings.get(designsMark)
  if (known) return known
  const listing = read(database)
  listings.set(designsMark, listing)
  listing.catch(() => listings.delete(designsMark))
  return listing
}

const listings = new WeakMap<object, Promise<readonly SelectorIndex[]>>()

async function read(database: Database): Promise<readonly SelectorIndex[]> {
  const indexes: SelectorIndex[] = []
  for (const id of await designIds(database)) {
    const document = await designOf(database, id)
    if (document && languageOf(document) === SELECTOR_LANGUAGE) indexes.push(...indexesIn(id, document, database))
  }
  return indexes
}

/** Undefined where it was deleted meanwhile. */
async function designOf(database: Database, id: string): Promise<Readonly<Record<string, unknown>> | undefined> {
  try {
    return (await database.currentDesign(id)).members
  } catch (error) {
    if (error instanceof RequestError && error.kind === 'not found') return undefined
    throw error
  }
}

async function designIds(database: Database): Promise<string[]> {
  const ids: string[] = []
  using view = database.view()
  let rest: KeyRange | undefined = { from: documentKey('_design/'), to: documentKey('_design0') }
  while (rest) {
    const page: Page = await view.snapshot.page(rest)
    for (let row = 0; row < page.length; row++) {
      if (!summarizeRecord(page.value(row)).deleted) ids.push(idOfDocumentKey(page.key(row)))
    }
    rest = page.next
  }
  return ids
}

function indexesIn(id: string, document: Readonly<Record<string, unknown>>, database: DesignPlace): SelectorIndex[] {
  const design = viewDesign(id, document, database)
  const views = isObject(document.views) ? document.views : {}
  return [...design.views.keys()].flatMap((name) => {
    const view = views[name]
    const definition = isObject(view) ? definitionOfView(view) : undefined
    return definition ? [{ design, name, definition, columns: definition.columns.map((column) => column.name) }] : []
  })
}

/** The entry of `GET _index`. */
export function indexListing({ design, name, definition }: SelectorIndex): JsonValue {
  const { columns, partialFilter, reducedField } = definition
  return {
    ddoc: design.id,
    name,
    type: 'json',
    partitioned: design.isPartitioned,
    def: {
      fields: columns.map(sortJson),
      ...(partialFilter !== undefined && { partial_filter_selector: partialFilter }),
      ...(reducedField !== undefined && { reduce: reducedField }),
    },
  }
}

/** The list of all documents, which every database has. */
export const ALL_DOCUMENTS_LISTING: JsonValue = {
  ddoc: null,
  name: '_all_docs',
  type: 'special',
  def: { fields: [{ _id: 'asc' }] },
}
