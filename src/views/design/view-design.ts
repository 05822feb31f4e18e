/**
 * The views of a design document. Views with the same map function and options share their rows; map functions are
 * numbered, and so are the reduce functions over each. The signature is a digest of everything that decides rows and
 * reductions, so design documents with the same signature share one index.
 */
import { hash } from 'node:crypto'
import type { Database } from '../../database/database.ts'
import { summarizeRecord } from '../../database/layout/document-record.ts'
import { documentKey, idOfDocumentKey } from '../../database/layout/keys.ts'
import { badRequest } from '../../document/request-error.ts'
import { type Collation, collationVersion } from '../../encoding/collation/collation-key.ts'
import { isObject } from '../../encoding/json/json-value.ts'
import type { MapProgram } from '../../functions/functions.ts'
import { definitionOfView, definitionText, SELECTOR_LANGUAGE } from '../../selectors/index-definition.ts'
import type { KeyRange, Page } from '../../storage/store.ts'

export interface ViewDesign {
  /** `_design/name` */
  readonly id: string
  /** 32 hexadecimal digits. */
  readonly signature: string
  readonly language: string
  /** `views.lib` as JSON text. */
  readonly library: string | undefined
  /** Whether map functions see `_local_seq`. */
  readonly localSequence: boolean
  /** Whether rows are stored and queried by the partition of their documents. */
  readonly isPartitioned: boolean
  /** Whether design documents are mapped too. */
  readonly includeDesign: boolean
  /** The whole of `options`: some of its members are defaults of queries. */
  readonly options: Readonly<Record<string, unknown>>
  /** The distinct map functions; the index of a function is the number of its rows. */
  readonly maps: readonly MapDefinition[]
  readonly views: ReadonlyMap<string, NamedView>
}

export interface MapDefinition {
  readonly source: string
  readonly collation: Collation
  /** The distinct reduce functions over its rows, builtin ones too. */
  readonly reduces: readonly string[]
}

export interface NamedView {
  /** Its map function among `maps`. */
  readonly number: number
  /** Its reduce function among `reduces` of the map function; undefined for a view without one. */
  readonly reduce: number | undefined
}

/** Parses a stored design document. Members of the wrong type are ignored. */
export function parseViewDesign(id: string, text: string, database: DesignPlace): ViewDesign {
  const parsed: unknown = JSON.parse(text)
  return viewDesign(id, isObject(parsed) ? parsed : {}, database)
}

/** The database that a design document is of. */
export interface DesignPlace {
  readonly isPartitioned: boolean
}

/** The same for a parsed, immutable document: the result is cached with it. */
export function viewDesign(id: string, document: Readonly<Record<string, unknown>>, database: DesignPlace): ViewDesign {
  const known = designs.get(document)
  if (known?.id === id) return known
  const design = read(id, document, database)
  designs.set(document, design)
  return design
}

const designs = new WeakMap<object, ViewDesign>()

/** The number of a view takes two bytes in every row. */
const MAPS_LIMIT = 10_000

function read(id: string, document: Readonly<Record<string, unknown>>, database: DesignPlace): ViewDesign {
  const language = languageOf(document)
  const options = isObject(document.options) ? document.options : {}
  const isPartitioned = database.isPartitioned && options.partitioned !== false
  const entries = isObject(document.views) ? document.views : {}
  const library = isObject(entries.lib) ? canonicalText(entries.lib) : undefined
  const isSelector = language === SELECTOR_LANGUAGE
  const sources = isSelector ? selectorSourcesOf(entries) : sourcesOf(entries)
  const { maps, views } = numbered(sources, options)
  if (maps.length > MAPS_LIMIT) throw badRequest(`A design document has at most ${MAPS_LIMIT} different views.`)
  return {
    id,
    signature: hash(
      'md5',
      canonicalText({ language, options, library, sources, ...(isPartitioned && { isPartitioned }) }),
    ),
    language,
    library,
    isPartitioned,
    localSequence: !isSelector && options.local_seq === true,
    includeDesign: !isSelector && options.include_design === true,
    options,
    maps,
    views,
  }
}

/** What the functions are called with. */
export function mapProgram({ signature, language, library, maps }: ViewDesign): MapProgram {
  return {
    key: signature,
    language,
    library,
    maps: maps.map(({ source, collation }) => ({ source, collation })),
  }
}

/** Only the views of a design document that share the map function of this view, which must exist. */
export function partOf(design: ViewDesign, name: string): ViewDesign {
  const number = design.views.get(name)?.number ?? 0
  const known = parts.get(design) ?? []
  parts.set(design, known)
  known[number] ??= part(design, number)
  return known[number]
}

/** The design split by map function. */
export function partsOf(design: ViewDesign): ViewDesign[] {
  return [...new Set([...design.views.keys()].map((name) => partOf(design, name)))]
}

/** By the number of the map function. */
const parts = new WeakMap<ViewDesign, ViewDesign[]>()

function part(design: ViewDesign, number: number): ViewDesign {
  const views = [...design.views].filter(([, view]) => view.number === number)
  return {
    ...design,
    signature: hash('md5', canonicalText([design.signature, number])),
    maps: design.maps.slice(number, number + 1),
    views: new Map(views.map(([name, { reduce }]) => [name, { number: 0, reduce }])),
  }
}

/** Stored with an index; an index with another value is rebuilt. */
export const indexFormat = `1/${collationVersion}`

function languageOf({ language = null }: Readonly<Record<string, unknown>>): string {
  if (language === null) return 'javascript'
  return typeof language === 'string' ? language : JSON.stringify(language)
}

interface ViewSource {
  readonly name: string
  readonly map: string
  readonly reduce: string | undefined
  readonly options: Readonly<Record<string, unknown>>
}

/** In the order of their names, so that equal signatures mean equal numbers. */
function sourcesOf(entries: Readonly<Record<string, unknown>>): ViewSource[] {
  const sources: ViewSource[] = []
  for (const name of Object.keys(entries).sort()) {
    const entry = entries[name]
    if (!isObject(entry) || typeof entry.map !== 'string') continue
    const reduce = typeof entry.reduce === 'string' ? entry.reduce : undefined
    sources.push({ name, map: entry.map, reduce, options: isObject(entry.options) ? entry.options : {} })
  }
  return sources
}

/** Selector indexes: their definition takes the place of the source of a map function. */
function selectorSourcesOf(entries: Readonly<Record<string, unknown>>): ViewSource[] {
  const sources: ViewSource[] = []
  for (const name of Object.keys(entries).sort()) {
    const entry = entries[name]
    const definition = isObject(entry) ? definitionOfView(entry) : undefined
    if (!definition) continue
    // How many rows there are is known without a reduction.
    const reduce = definition.reducedField === undefined ? undefined : '_stats'
    sources.push({ name, map: definitionText(definition), reduce, options: {} })
  }
  return sources
}

function numbered(sources: readonly ViewSource[], designOptions: Readonly<Record<string, unknown>>) {
  const maps: (MapDefinition & { readonly reduces: string[] })[] = []
  const views = new Map<string, NamedView>()
  const numbers = new Map<string, number>()
  for (const { name, map, reduce, options } of sources) {
    const identity = canonicalText([map, options])
    const number = numbers.get(identity) ?? maps.length
    numbers.set(identity, number)
    maps[number] ??= { source: map, collation: collationOf(options, designOptions), reduces: [] }
    const { reduces } = maps[number]
    if (reduce !== undefined && !reduces.includes(reduce)) reduces.push(reduce)
    views.set(name, { number, reduce: reduce === undefined ? undefined : reduces.indexOf(reduce) })
  }
  return { maps, views }
}

/** An option of the view overrides that of the design document. */
function collationOf(
  options: Readonly<Record<string, unknown>>,
  designOptions: Readonly<Record<string, unknown>>,
): Collation {
  return (options.collation ?? designOptions.collation) === 'raw' ? 'raw' : 'unicode'
}

/** JSON text in which the members of objects are in the order of their names. */
function canonicalText(value: unknown): string {
  return JSON.stringify(value, (_, member: unknown) => {
    if (!isObject(member)) return member
    return Object.fromEntries(Object.entries(member).sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)))
  })
}

/** The view definitions of the design documents of a database that are not deleted. */
export async function liveDesigns(database: Database): Promise<ViewDesign[]> {
  const designs: ViewDesign[] = []
  using view = database.view()
  let rest: KeyRange | undefined = { from: documentKey('_design/'), to: documentKey('_design0') }
  while (rest) {
    const page: Page = await view.snapshot.page(rest)
    for (let row = 0; row < page.length; row++) {
      const { deleted, body } = summarizeRecord(page.value(row))
      if (deleted) continue
      const { text } = await view.body(body)
      designs.push(parseViewDesign(idOfDocumentKey(page.key(row)), text.toString(), database))
    }
    rest = page.next
  }
  return designs
}
