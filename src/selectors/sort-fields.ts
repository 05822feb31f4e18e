/** Fields with a direction, as `sort` and the definitions of indexes list them. */
import { isObject } from '../encoding/json/json-value.ts'
import { selectorError, shown } from './selector-error.ts'

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
