/**
 * The parameters of a view query: texts from the query string, JSON values from a body and from the options of the design
 * document. Later ones win.
 */
import { badRequest, invalidJson, queryParseError, type RequestError } from '../../document/request-error.ts'
import type { JsonValue } from '../../encoding/json/json-value.ts'
import type { Freshness } from '../reading/open-index.ts'

export interface ViewParameters {
  /** In the direction of reading. Undefined where the range has no such end. */
  startKey: JsonValue | undefined
  startId: string | undefined
  endKey: JsonValue | undefined
  endId: string | undefined
  inclusiveEnd: boolean
  /** Must be an array, which is checked where its turn comes. */
  keys: JsonValue | undefined
  descending: boolean
  skip: number
  limit: number
  /** Undefined if not given, which is not always the same as `true`. */
  reduce: boolean | undefined
  /** 0 puts all rows together, `exact` those of equal keys. */
  groupLevel: number | 'exact'
  includeDocs: boolean
  /** Undefined if not given, which is not always the same as `false`. */
  conflicts: boolean | undefined
  attachments: boolean
  encodingInfo: boolean
  updateSequence: boolean
  freshness: Freshness
  /** Rows of documents of this partition alone. */
  partition: string | undefined
}

/** One parameter as it was given. */
export interface GivenParameter {
  readonly name: string
  readonly value: ParameterValue
}

/** Of the query string; `text` is decoded already. */
export function textParameter(name: string, text: string): GivenParameter {
  return { name: canonicalName(name), value: new TextValue(text) }
}

/** Of a body or of a design document's options. */
export function jsonParameter(name: string, value: JsonValue): GivenParameter {
  return { name: canonicalName(name), value: new StructuredValue(value) }
}

/** Whether there is a parameter of this name, by whatever spelling. */
export function isParameter(name: string): boolean {
  return READERS.has(canonicalName(name))
}

/** Throws the error of the first invalid one. Unknown names are ignored. */
export function readParameters(given: readonly GivenParameter[]): ViewParameters {
  const parameters: ViewParameters = {
    startKey: undefined,
    startId: undefined,
    endKey: undefined,
    endId: undefined,
    inclusiveEnd: true,
    keys: undefined,
    descending: false,
    skip: 0,
    limit: Number.POSITIVE_INFINITY,
    reduce: undefined,
    groupLevel: 0,
    includeDocs: false,
    conflicts: undefined,
    attachments: false,
    encodingInfo: false,
    updateSequence: false,
    freshness: 'updated',
    partition: undefined,
  }
  for (const { name, value } of given) READERS.get(name)?.(parameters, value)
  return parameters
}

/** Conversions of a parameter. Each throws if the value is not valid. */
interface ParameterValue {
  json(): JsonValue
  text(): string
  boolean(): boolean
  count(): number
}

class TextValue implements ParameterValue {
  readonly #text: string

  constructor(text: string) {
    this.#text = text
  }

  json(): JsonValue {
    try {
      return JSON.parse(this.#text)
    } catch {
      throw invalidJson()
    }
  }

  text(): string {
    return this.#text
  }

  boolean(): boolean {
    const lower = this.#text.toLowerCase()
    if (lower !== 'true' && lower !== 'false') throw notBoolean(this.#text)
    return lower === 'true'
  }

  count(): number {
    if (!/^-?\d+$/.test(this.#text)) throw notInteger(this.#text)
    if (this.#text.startsWith('-')) throw negative(this.#text)
    return atMostSafe(Number(this.#text))
  }
}

class StructuredValue implements ParameterValue {
  readonly #value: JsonValue

  constructor(value: JsonValue) {
    this.#value = value
  }

  json(): JsonValue {
    return this.#value
  }

  text(): string {
    if (typeof this.#value !== 'string') throw queryParseError(`Invalid value for text: ${JSON.stringify(this.#value)}`)
    return this.#value
  }

  boolean(): boolean {
    if (typeof this.#value !== 'boolean') throw notBoolean(this.#value)
    return this.#value
  }

  count(): number {
    if (!Number.isInteger(this.#value)) throw notInteger(this.#value)
    if (Number(this.#value) < 0) throw negative(this.#value)
    return atMostSafe(Number(this.#value))
  }
}

/** Some clients send the largest number of their language to mean all. */
function atMostSafe(count: number): number {
  return Math.min(count, Number.MAX_SAFE_INTEGER)
}

function notBoolean(value: JsonValue): RequestError {
  return queryParseError(`Invalid boolean parameter: ${JSON.stringify(value)}`)
}

function notInteger(value: JsonValue): RequestError {
  return queryParseError(`Invalid value for integer: ${JSON.stringify(value)}`)
}

function negative(value: JsonValue): RequestError {
  return queryParseError(`Invalid value for positive integer: ${JSON.stringify(value)}`)
}

/** Other spellings of the same parameters. */
const SPELLINGS = new Map([
  ['start_key', 'startkey'],
  ['end_key', 'endkey'],
  ['start_key_doc_id', 'startkey_docid'],
  ['end_key_doc_id', 'endkey_docid'],
])

function canonicalName(name: string): string {
  return SPELLINGS.get(name) ?? name
}

const READERS = new Map<string, (parameters: ViewParameters, value: ParameterValue) => void>([
  [
    'key',
    (parameters, value) => {
      const key = value.json()
      parameters.startKey = key
      parameters.endKey = key
    },
  ],
  ['keys', (parameters, value) => (parameters.keys = value.json())],
  ['startkey', (parameters, value) => (parameters.startKey = value.json())],
  ['endkey', (parameters, value) => (parameters.endKey = value.json())],
  ['startkey_docid', (parameters, value) => (parameters.startId = value.text())],
  ['endkey_docid', (parameters, value) => (parameters.endId = value.text())],
  ['inclusive_end', (parameters, value) => (parameters.inclusiveEnd = value.boolean())],
  ['descending', (parameters, value) => (parameters.descending = value.boolean())],
  ['skip', (parameters, value) => (parameters.skip = value.count())],
  ['limit', (parameters, value) => (parameters.limit = value.count())],
  ['reduce', (parameters, value) => (parameters.reduce = value.boolean())],
  ['group', (parameters, value) => (parameters.groupLevel = value.boolean() ? 'exact' : 0)],
  ['group_level', (parameters, value) => (parameters.groupLevel = value.count())],
  ['include_docs', (parameters, value) => (parameters.includeDocs = value.boolean())],
  ['conflicts', (parameters, value) => (parameters.conflicts = value.boolean())],
  ['attachments', (parameters, value) => (parameters.attachments = value.boolean())],
  ['att_encoding_info', (parameters, value) => (parameters.encodingInfo = value.boolean())],
  ['update_seq', (parameters, value) => (parameters.updateSequence = value.boolean())],
  ['stale', (parameters, value) => (parameters.freshness = freshnessOf('stale', STALE, value))],
  ['update', (parameters, value) => (parameters.freshness = freshnessOf('update', UPDATE, value))],
  ['stable', (_, value) => checkSwitch('stable', value)],
  [
    'count',
    () => {
      throw queryParseError('QS param `count` is not `limit`')
    },
  ],
  ['partition', (parameters, value) => (parameters.partition = onePartition(parameters.partition, value.text()))],
])

const STALE: ReadonlyMap<JsonValue, Freshness> = new Map([
  ['ok', 'stale'],
  ['update_after', 'update after'],
])
const UPDATE: ReadonlyMap<JsonValue, Freshness> = new Map<JsonValue, Freshness>([
  ['true', 'updated'],
  [true, 'updated'],
  ['false', 'stale'],
  [false, 'stale'],
  ['lazy', 'update after'],
])

/** The partition of the path or query string, and that of the body, must be the same. */
function onePartition(known: string | undefined, given: string): string {
  if (known !== undefined && known !== given) throw badRequest('Conflicting values for `partition`')
  return given
}

function freshnessOf(name: string, known: ReadonlyMap<JsonValue, Freshness>, value: ParameterValue): Freshness {
  const freshness = known.get(wordOf(value))
  if (freshness === undefined) throw invalidValue(name)
  return freshness
}

function checkSwitch(name: string, value: ParameterValue): void {
  const word = wordOf(value)
  if (word !== 'true' && word !== 'false' && typeof word !== 'boolean') throw invalidValue(name)
}

/** The text of a text, and what else a JSON value is. */
function wordOf(value: ParameterValue): JsonValue {
  return value instanceof StructuredValue ? value.json() : value.text()
}

function invalidValue(name: string): RequestError {
  return queryParseError(`Invalid value for \`${name}\`.`)
}
