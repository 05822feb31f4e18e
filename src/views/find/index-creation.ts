/** Definitions of selector indexes: as clients send them, and as design documents keep them. */
import { hash } from 'node:crypto'
import { RequestError } from '../../document/request-error.ts'
import { isObject } from '../../encoding/json/json-value.ts'
import { conditionJson } from '../../selectors/condition.ts'
import { fieldPath } from '../../selectors/field-path.ts'
import { definitionOfView, definitionText, SELECTOR_LANGUAGE, sortFields } from '../../selectors/index-definition.ts'
import { parseSelector } from '../../selectors/parse-selector.ts'
import { selectorError, shown } from '../../selectors/selector-error.ts'
import type { DesignPlace } from '../design/view-design.ts'
import { missingKey } from './find-request.ts'
import { invalidIndex } from './index-choice.ts'

export interface NewIndex {
  /** `_design/name` */
  readonly design: string
  readonly name: string
  /** Whether it is one by partition; undefined in a database without them. */
  readonly isPartitioned: boolean | undefined
  /** The view of the design document. */
  readonly view: Readonly<Record<string, unknown>>
}

const MEMBERS = new Set(['index', 'type', 'name', 'ddoc', 'w', 'partitioned'])
const DESIGN = '_design/'

/** The body of `POST _index`. Throws the error of the interface if it is not valid. */
export function readNewIndex(body: Readonly<Record<string, unknown>>, database: DesignPlace): NewIndex {
  for (const name of Object.keys(body)) {
    if (!MEMBERS.has(name)) throw selectorError('invalid_key', `Invalid key ${shown(name)} for this request.`)
  }
  const { index, type = 'json', partitioned = database.isPartitioned } = body
  if (index === undefined) throw missingKey('index')
  checkType(type)
  if (typeof partitioned !== 'boolean') {
    throw selectorError('invalid_boolean', `Invalid boolean value: ${shown(partitioned)}`)
  }
  if (partitioned && !database.isPartitioned) throw invalidIndex('Indexes of this database cannot be partitioned.')
  if (!isObject(index)) throw invalidIndex(`JSON indexes must be an object, not: ${shown(index)}`)
  const view = indexView(index)
  const isPartitioned = database.isPartitioned ? partitioned : undefined
  // A global index must not be stored in the design document of partitioned ones.
  const digest = hash('sha1', JSON.stringify(isPartitioned === false ? [view, 'global'] : view))
  return { design: designId(body.ddoc, digest), name: indexName(body.name, digest), isPartitioned, view }
}

function checkType(type: unknown): void {
  if (typeof type !== 'string') throw selectorError('invalid_string', `Invalid string: ${shown(type)}`)
  if (type === 'text' || type === 'nouveau')
    throw new RequestError('unavailable', 'required index service unavailable', type)
  if (type !== 'json') throw invalidIndex(`Invalid type for index: ${shown(type)}`)
}

const INDEX_MEMBERS = new Set(['fields', 'partial_filter_selector', 'reduce'])

/** `reduce` is our own: the field whose numbers the index sums up. */
function indexView(index: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  for (const name of Object.keys(index)) {
    if (!INDEX_MEMBERS.has(name)) throw selectorError('invalid_key', `Invalid key ${shown(name)} for this request.`)
  }
  const { fields, partial_filter_selector: partial, reduce } = index
  if (fields === undefined) throw missingKey('fields')
  const columns = sortFields(fields)
  const names = columns.map(({ name }) => fieldPath(name).name)
  if (names.length === 0 || new Set(names).size < names.length) {
    throw invalidIndex(`An index has one or more different fields, not: ${shown(fields)}`)
  }
  if (reduce !== undefined && typeof reduce !== 'string') {
    throw selectorError('invalid_string', `Invalid string: ${shown(reduce)}`)
  }
  const map = {
    fields: Object.fromEntries(columns.map(({ name, direction }) => [name, direction])),
    ...(partial !== undefined && { partial_filter_selector: conditionJson(parseSelector(partial)) }),
    ...(reduce !== undefined && { reduce: fieldPath(reduce).name }),
  }
  return { map, reduce: '_count', options: { def: index } }
}

function designId(ddoc: unknown, digest: string): string {
  const given = nameOf(ddoc) ?? digest
  if (given === DESIGN) throw new RequestError('invalid', 'bad_request', 'A design document must have a name.')
  return given.startsWith(DESIGN) ? given : DESIGN + given
}

function indexName(name: unknown, digest: string): string {
  return nameOf(name) ?? digest
}

function nameOf(value: unknown): string | undefined {
  if (value === undefined || value === null) return undefined
  if (typeof value !== 'string') throw selectorError('invalid_string', `Invalid string: ${shown(value)}`)
  if (value === '') throw selectorError('invalid_empty_string', 'Index name or ddoc cannot be empty string')
  return value
}

type Members = Readonly<Record<string, unknown>>

/** The design document with the index added; undefined if it is there already. */
export function withIndex(document: Members | undefined, { name, view, isPartitioned }: NewIndex): Members | undefined {
  // Without a language the functions of a design document are JavaScript.
  const language = document ? document.language : SELECTOR_LANGUAGE
  if (language !== SELECTOR_LANGUAGE) {
    throw selectorError(
      'invalid_ddoc_lang',
      `Existing design doc has an invalid language: ${shown(language ?? 'javascript')}`,
    )
  }
  const options = document && isObject(document.options) ? document.options : {}
  if (document && isPartitioned !== undefined && isPartitioned !== (options.partitioned !== false)) {
    const reason = 'Requested partitioned option does not match existing value on design document'
    throw selectorError('partitioned_option_mismatch', reason)
  }
  const views = document && isObject(document.views) ? document.views : {}
  if (isSame(Object.hasOwn(views, name) ? views[name] : undefined, view)) return undefined
  const ofOptions = isPartitioned === undefined ? {} : { options: { ...options, partitioned: isPartitioned } }
  return { ...document, language, ...ofOptions, views: { ...views, [name]: view } }
}

/** The design document without an index; `empty` where nothing else is left of it, undefined where it has no such index. */
export function withoutIndex(document: Members, name: string): Members | 'empty' | undefined {
  if (document.language !== SELECTOR_LANGUAGE || !isObject(document.views)) return undefined
  const { [name]: removed, ...views } = document.views
  if (!isObject(removed) || !definitionOfView(removed)) return undefined
  if (Object.keys(views).length > 0) return { ...document, views }
  const { views: _, ...others } = document
  const isEmpty = Object.keys(others).every((member) => member.startsWith('_') || EMPTY_MEMBERS.has(member))
  return isEmpty ? 'empty' : others
}

/** Members that a design document without other content may have. */
const EMPTY_MEMBERS = new Set(['language', 'options'])

function isSame(a: unknown, b: Members): boolean {
  if (!isObject(a)) return false
  const [one, other] = [definitionOfView(a), definitionOfView(b)]
  if (!one || !other) return false
  const directions = one.columns.every(({ direction }, i) => direction === other.columns[i]?.direction)
  return directions && definitionText(one) === definitionText(other)
}
