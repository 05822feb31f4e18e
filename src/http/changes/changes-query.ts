/** The parameters of a changes feed, parsed and checked. Unknown ones are ignored. */
import type { Dialect } from '../../config/dialect.ts'
import { badRequest } from '../../document/request-error.ts'
import type { Call } from '../server/call.ts'
import type { FeedKind } from './changes-text.ts'
import type { IdlePolicy } from './feed.ts'

export interface ChangesParameters {
  readonly feed: FeedKind
  /** A sequence, or the current one. */
  readonly since: number | 'now'
  /** A sequence of another server; the feed begins at the start. */
  readonly foreignSince: string | undefined
  readonly limit: number
  readonly descending: boolean
  readonly leaves: 'winner' | 'all'
  readonly documents: DocumentParameters | undefined
  readonly idle: IdlePolicy
  /** Empty where all changes are wanted. */
  readonly filter: string
  readonly view: string | undefined
  readonly documentIds: string | undefined
}

export interface DocumentParameters {
  readonly conflicts: boolean
  readonly contents: boolean
  readonly encodingInfo: boolean
}

/** `longestIdleMs` is the longest that a client may ask to wait. */
export function changesParameters(call: Call, longestIdleMs: number): ChangesParameters {
  const parameters = lowerCased(call.parameters)
  const isOn = (name: string) => parameters.get(name)?.toLowerCase() === 'true'
  return {
    feed: feedOf(parameters.get('feed')),
    ...sinceOf(call, parameters),
    limit: limitOf(parameters.get('limit'), call.dialect),
    descending: isOn('descending'),
    leaves: leavesOf(parameters.get('style')),
    documents: isOn('include_docs')
      ? { conflicts: isOn('conflicts'), contents: isOn('attachments'), encodingInfo: isOn('att_encoding_info') }
      : undefined,
    idle: idlePolicyOf(parameters.get('timeout'), parameters.get('heartbeat'), longestIdleMs),
    filter: parameters.get('filter') ?? '',
    view: parameters.get('view'),
    documentIds: parameters.get('doc_ids'),
  }
}

const FEEDS: ReadonlyMap<string, FeedKind> = new Map([
  ['normal', 'normal'],
  ['longpoll', 'longpoll'],
  ['continuous', 'continuous'],
  ['live', 'continuous'],
  ['eventsource', 'eventsource'],
])

/** What `heartbeat=true` stands for. */
const HEARTBEAT_MS = 60_000

/** Names are case-insensitive; of two spellings the later one counts. */
function lowerCased(parameters: ReadonlyMap<string, string>): ReadonlyMap<string, string> {
  return new Map([...parameters].map(([name, value]) => [name.toLowerCase(), value]))
}

function feedOf(text = 'normal'): FeedKind {
  const feed = FEEDS.get(text)
  if (!feed) throw badRequest('Supported `feed` types: normal, continuous, live, longpoll, eventsource')
  return feed
}

/** A client that reconnects sends its last event id, which wins over `since`. */
function sinceOf(call: Call, parameters: ReadonlyMap<string, string>): Since {
  const [header] = [call.header('last-event-id')].filter((value) => value !== undefined && value !== '')
  if (header !== undefined) return sequenceOf('Last-Event-ID', header)
  const given = [...parameters].filter(([name]) => name === 'since' || name === 'last-event-id').at(-1)
  return given ? sequenceOf(...given) : { since: 0, foreignSince: undefined }
}

type Since = Pick<ChangesParameters, 'since' | 'foreignSince'>

/**
 * A number; as text in JSON it counts too. A sequence of another server, a number with more after it, is not valid
 * here: the feed begins at the start.
 */
function sequenceOf(name: string, text: string): Since {
  if (text === 'now' || text === '"now"') return { since: 'now', foreignSince: undefined }
  const [, digits, foreign] = /^"?(-?\d{1,15})(-[^"]*)?"?$/.exec(text) ?? []
  if (digits === undefined) throw invalid(name)
  if (foreign !== undefined) return { since: 0, foreignSince: text }
  return { since: Math.max(0, Number(digits)), foreignSince: undefined }
}

/** In dialect 1.6 zero acts like one; in dialect 3 it asks for the current sequence and no changes. */
function limitOf(text: string | undefined, dialect: Dialect): number {
  if (text === undefined) return Number.POSITIVE_INFINITY
  return Math.max(dialect === '3' ? 0 : 1, countOf('limit', text))
}

function leavesOf(style = 'main_only'): 'winner' | 'all' {
  if (style !== 'main_only' && style !== 'all_docs') throw invalid('style')
  return style === 'all_docs' ? 'all' : 'winner'
}

/** With a heartbeat a feed never ends because it is idle. */
function idlePolicyOf(timeout: string | undefined, heartbeat: string | undefined, longestIdleMs: number): IdlePolicy {
  const timeoutMs = timeout === undefined ? longestIdleMs : countOf('timeout', timeout)
  if (heartbeat === undefined || heartbeat === 'false') {
    return { afterMs: Math.min(timeoutMs, longestIdleMs), sendsHeartbeat: false }
  }
  const heartbeatMs = heartbeat === 'true' ? HEARTBEAT_MS : countOf('heartbeat', heartbeat)
  if (heartbeatMs === 0) throw invalid('heartbeat')
  return { afterMs: Math.max(1, Math.min(heartbeatMs, longestIdleMs)), sendsHeartbeat: true }
}

/** May be very large: some clients send the largest number of their language to mean all. */
function countOf(name: string, text: string): number {
  if (!/^\d+$/.test(text)) throw invalid(name)
  return Math.min(Number(text), Number.MAX_SAFE_INTEGER)
}

function invalid(name: string): Error {
  return badRequest(`Invalid value for ${name}`)
}
