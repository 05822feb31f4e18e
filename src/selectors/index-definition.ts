/**
 * What a selector index is made of, as design documents keep it: the fields whose values make the key of a row, which
 * documents are in it at all, and the field whose numbers it sums up.
 */
import { isObject, type JsonValue } from '../encoding/json/json-value.ts'
import { conditionJson } from './condition.ts'
import { fieldPath } from './field-path.ts'
import { parseSelector } from './parse-selector.ts'
import { selectorError, shown } from './selector-error.ts'

/** The language of design documents that hold selector indexes. */
export const SELECTOR_LANGUAGE = 'query'

export interface IndexDefinition {
  readonly columns: readonly SortField[]
  /** In its normal form; undefined where all documents that have the fields are in the index. */
  readonly partialFilter: JsonValue | undefined
  /** Undefined where nothing is summed up. */
  readonly reducedField: string | undefined
}

/** The definition in a view that is a selector index; undefined for any other view. */
export function definitionOfView(view: Readonly<Record<string, unknown>>): IndexDefinition | undefined {
  const { map, options } = view
  if (!isObject(map) || !isObject(map.fields)) return undefined
  try {
    const columns = sortFields(listedFields(map.fields, options))
    if (columns.length === 0) return undefined
    for (const { name } of columns) fieldPath(name)
    const { partial_filter_selector: partial, reduce } = map
    return {
      columns,
      partialFilter: isEmpty(partial) ? undefined : conditionJson(parseSelector(partial)),
      reducedField: typeof reduce === 'string' ? fieldPath(reduce).name : undefined,
    }
  } catch {
    // Written by hand, and wrong: it is as if it were not there.
    return undefined
  }
}

function isEmpty(partial: unknown): boolean {
  return partial === undefined || partial === null || (isObject(partial) && Object.keys(partial).length === 0)
}

/** Objects do not keep the order of names that are numbers; the definition beside the map does. */
function listedFields(fields: Record<string, unknown>, options: unknown): readonly unknown[] {
  const named = Object.entries(fields).map(([name, direction]) => ({ [name]: direction }))
  const definition = isObject(options) && isObject(options.def) ? options.def.fields : undefined
  if (!Array.isArray(definition) || definition.length !== named.length) return named
  const names = definition.map((field: unknown) => (isObject(field) ? Object.keys(field)[0] : field))
  const isSame = names.every((name) => typeof name === 'string' && Object.hasOwn(fields, name))
  return isSame && new Set(names).size === names.length ? definition : named
}

/** Stands for the rows of the index: indexes with the same text have the same rows. */
export function definitionText({ columns, partialFilter, reducedField }: IndexDefinition): string {
  return JSON.stringify([columns.map(({ name }) => name), partialFilter ?? null, reducedField ?? null])
}

/** What of the definition decides the rows. */
export interface RowDefinition {
  readonly columns: readonly string[]
  readonly partialFilter: JsonValue | undefined
  readonly reducedField: string | undefined
}

export function rowDefinitionIn(text: string): RowDefinition {
  const [columns, partialFilter, reducedField]: [string[], JsonValue, string | null] = JSON.parse(text)
  return { columns, partialFilter: partialFilter ?? undefined, reducedField: reducedField ?? undefined }
}

/** Fields with a direction, as `sort` and the definitions of indexes list them. */
export type Direction = 'asc' | 'desc'

export interface SortField {
  readonly name: string
  readonly direction: Direction
}

/** All have one direction. Throws the error of the interface for what is no such list. */
export function sortFields(sort: unknown): SortField[] {
  if (!Array.isArray(sort)) {
    throw selectorError('invalid_sort_json', `Sort must be an array of sort specs, not: ${shown(sort)}`)
  }
  const fields = sort.map(sortField)
  if (fields.some(({ direction }) => direction !== fields[0]?.direction)) {
    throw selectorError('unsupported_mixed_sort', 'Sorts currently only support a single direction for all fields.')
  }
  return fields
}

function sortField(entry: unknown): SortField {
  if (typeof entry === 'string' && entry !== '') return { name: entry, direction: 'asc' }
  const members = isObject(entry) ? Object.entries(entry) : []
  const [[name, direction] = []] = members
  if (members.length === 1 && name && (direction === 'asc' || direction === 'desc')) return { name, direction }
  throw selectorError('invalid_sort_field', `Invalid sort field: ${shown(entry)}`)
}

export function sortJson({ name, direction }: SortField): Readonly<Record<string, Direction>> {
  return { [name]: direction }
}
