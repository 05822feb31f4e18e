/**
 * When a design document with functions is written, somebody will call them soon: what runs them is started meanwhile, so
 * that the first call need not wait for it. Map and reduce functions are left to whoever builds the indexes.
 */
import { isDesignId } from '../../document/document-id.ts'
import { isObject } from '../../encoding/json/json-value.ts'
import type { Functions } from '../../functions/functions.ts'
import type { DocumentEdit } from '../writing/edit.ts'
import { languageOf } from './design-document.ts'

const KINDS = ['validate_doc_update', 'filters', 'shows', 'lists', 'updates']

const LARGEST_BYTES = 256 * 1024

export function prepareFunctions(functions: Functions, edits: readonly DocumentEdit[]): void {
  for (const { id, deleted, body } of edits) {
    // A very large one would take longer to parse than the start that it saves.
    if (deleted || !isDesignId(id) || body.length > LARGEST_BYTES) continue
    const members: unknown = JSON.parse(body.toString())
    if (isObject(members) && KINDS.some((kind) => Object.hasOwn(members, kind))) functions.prepare(languageOf(members))
  }
}
