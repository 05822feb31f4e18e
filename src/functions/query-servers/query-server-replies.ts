/** The replies of the query-server protocol, by command. Values that are passed on as text keep their text. */

import { type Collation, CollationEncoder } from '../../encoding/collation/collation-key.ts'
import type { JsonReader } from '../../encoding/json/json-text.ts'
import { isObject } from '../../encoding/json/json-value.ts'
import { functionError } from '../function-error.ts'
import {
  type FunctionResponse,
  type ListOutput,
  MAPPED_FIELDS,
  type MappedBatch,
  type UpdateResult,
} from '../functions.ts'
import { unexpectedReply } from './query-server.ts'

/** `[[[key, value], ...], ...]`: a list a map function. */
export function readRows(reply: JsonReader, maps: number): EmittedRow[][] {
  const perMap: EmittedRow[][] = []
  for (const _ of reply.elements()) {
    const rows: EmittedRow[] = []
    for (const _ of reply.elements()) rows.push(readRow(reply))
    perMap.push(rows)
  }
  if (perMap.length !== maps) throw unexpectedReply()
  return perMap
}

function readRow(reply: JsonReader): EmittedRow {
  const texts = readTexts(reply)
  const [key, value] = texts
  if (!key || !value || texts.length > 2) throw unexpectedReply()
  return { key, value }
}

/** `[true, [result]]` of one function. */
export function readReduction(reply: JsonReader): string {
  const [isDone, results] = readTexts(reply)
  if (isDone?.toString() !== 'true' || !results) throw unexpectedReply()
  // The list around the one result; nothing else is left of it, since white space is gone.
  const text = results.toString()
  const value: unknown = JSON.parse(text)
  if (!Array.isArray(value) || value.length !== 1) throw unexpectedReply()
  return text.slice(1, -1)
}

/** `[true, [passes, ...]]` */
export function readVerdicts(reply: JsonReader, documents: number): boolean[] {
  const value = reply.value()
  if (!Array.isArray(value) || value[0] !== true || !Array.isArray(value[1]) || value[1].length !== documents) {
    throw unexpectedReply()
  }
  return value[1].map(Boolean)
}

/** `1`, `true`, or an object with the refusal as its only member. */
export function readValidation(reply: JsonReader): Error | undefined {
  const value = reply.value()
  if (value === 1 || value === true) return undefined
  const [refusal, ...others] = isObject(value) ? Object.entries(value) : []
  if (!refusal || others.length > 0) return functionError('unknown_error', value)
  const [id, reason] = refusal
  return id === 'forbidden' || id === 'unauthorized'
    ? functionError(id, reason)
    : functionError('unknown_error', reason)
}

/** `["resp", response]` */
export function readResponse(reply: JsonReader): FunctionResponse {
  const value = reply.value()
  if (!Array.isArray(value) || value[0] !== 'resp') throw unexpectedReply()
  return responseOf(value[1], 'show')
}

/** `["up", document, response]` */
export function readUpdate(reply: JsonReader): UpdateResult {
  const [verb, document, response] = readTexts(reply)
  if (verb?.toString() !== '"up"' || !document || !response) throw unexpectedReply()
  const text = document.toString()
  return {
    document: text.startsWith('{') ? text : null,
    response: responseOf(JSON.parse(response.toString()), 'update'),
  }
}

/** `["start", chunks, response]` */
export function readListStart(reply: JsonReader): ListOutput {
  return readList(reply, 'start')
}

/** `["chunks", chunks]` or `["end", chunks]`, with a new head or without. */
export function readListOutput(reply: JsonReader): ListOutput {
  return readList(reply, 'chunks', 'end')
}

export function readListEnd(reply: JsonReader): ListOutput {
  return readList(reply, 'end')
}

function readList(reply: JsonReader, ...verbs: readonly string[]): ListOutput {
  const value = reply.value()
  const [verb, chunks, response] = Array.isArray(value) ? value : []
  if (!verbs.includes(verb) || !Array.isArray(chunks)) throw unexpectedReply()
  return {
    chunks: chunks.map(String),
    response: isObject(response) ? response : undefined,
    ended: verb === 'end',
  }
}

/** A text stands for itself; nothing at all for an empty reply. */
function responseOf(value: unknown, kind: 'show' | 'update'): FunctionResponse {
  if (typeof value === 'string') return { body: value }
  if (isObject(value)) return value
  throw functionError('render_error', `undefined response from ${kind} function`)
}

function readTexts(reply: JsonReader): Buffer[] {
  const texts: Buffer[] = []
  for (const _ of reply.elements()) texts.push(reply.text())
  return texts
}

/** JSON texts. */
export interface EmittedRow {
  readonly key: Buffer
  readonly value: Buffer
}

const ENCODERS: Readonly<Record<Collation, CollationEncoder>> = {
  unicode: new CollationEncoder('unicode'),
  raw: new CollationEncoder('raw'),
}

/** Collects emitted rows into one batch, and makes their sort keys. */
export class EmittedRows {
  readonly #pieces: Buffer[] = []
  readonly #fields: number[] = []
  #bytes = 0

  /** What one map function emitted for one document. */
  add(document: number, map: number, rows: readonly EmittedRow[], collation: Collation): void {
    const encoder = ENCODERS[collation]
    for (const { key, value } of rows) {
      const sortKey = encoder.encode(JSON.parse(key.toString()))
      const keyAt = this.#bytes + sortKey.length
      const valueAt = keyAt + key.length
      const end = valueAt + value.length
      this.#fields.push(document, map, encoder.exact ? 1 : 0, this.#bytes, keyAt, valueAt, end)
      this.#pieces.push(sortKey, key, value)
      this.#bytes = end
    }
  }

  batch(): MappedBatch {
    return {
      rows: this.#fields.length / MAPPED_FIELDS,
      block: Buffer.concat(this.#pieces, this.#bytes),
      fields: Uint32Array.from(this.#fields),
    }
  }
}
