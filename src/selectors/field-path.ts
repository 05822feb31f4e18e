/**
 * The name of a field as selectors and indexes write it: dots separate the members of nested objects, `\.` is a dot of the
 * name itself, and a number is the position of an element where the value is an array.
 */
import { invalidFieldName } from './selector-error.ts'

export interface FieldPath {
  /** As it was written. */
  readonly name: string
  /** The member names, unescaped. Empty for the value itself, as an element of an array. */
  readonly segments: readonly string[]
}

/** Of the value that a condition is applied to. */
export const OWN_VALUE: FieldPath = { name: '', segments: [] }

const LONGEST_NAME = 10_000

/** Throws where a part is empty. */
export function fieldPath(name: string): FieldPath {
  if (name.length > LONGEST_NAME) throw invalidFieldName(name)
  const segments = name.includes('\\') ? escapedSegments(name) : name.split('.')
  if (segments.includes('')) throw invalidFieldName(name)
  return { name, segments }
}

/** The field of a nested object. */
export function nestedName(outer: FieldPath, inner: string): string {
  return outer.name === '' ? inner : `${outer.name}.${inner}`
}

/** A backslash takes the next character as it is. */
function escapedSegments(name: string): string[] {
  const segments: string[] = []
  let segment = ''
  for (let i = 0; i < name.length; i++) {
    if (name[i] === '.') {
      segments.push(segment)
      segment = ''
    } else segment += name[i] === '\\' ? (name[++i] ?? '') : name[i]
  }
  return [...segments, segment]
}
