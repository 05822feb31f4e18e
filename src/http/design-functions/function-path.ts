/** What the path of a design document's function names: `/{db}/_design/{name}/_show/{function}/…`. */

import type { DesignDocument } from '../../database/design/design-document.ts'
import { notFound, RequestError } from '../../document/request-error.ts'
import { isObject } from '../../encoding/json/json-value.ts'
import type { Call } from '../server/call.ts'

/** The kinds of functions that are called by their names. */
export type FunctionKind = 'shows' | 'lists' | 'updates'

export function designId(call: Call): string {
  return `_design/${call.segment(2)}`
}

/** The name of the function; throws the given error where the path ends before it. */
export function functionName(call: Call, error: 'show_error' | 'update_error'): string {
  const name = call.segments[4]
  if (name === undefined) throw new RequestError(404, error, 'Invalid path.')
  return name
}

/** The document for the function: an id with slashes is as many segments. Null where the path names none. */
export function functionDocument(call: Call): string | null {
  const rest = call.segments.slice(5)
  return rest.length === 0 ? null : rest.join('/')
}

/** Throws where the design document has no such function. What is no text may hold modules, and cannot be called. */
export function requireFunction({ id, members }: DesignDocument, kind: FunctionKind, name: string): void {
  const functions = members[kind]
  if (isObject(functions) && Object.hasOwn(functions, name) && typeof functions[name] === 'string') return
  throw notFound(`missing ${kind} function ${name} on design doc ${id}`)
}
