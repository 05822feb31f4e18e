/**
 * What is recorded of every request: its id, a line in the log, more at the level `debug`, and counters. Secrets are
 * masked. A line of text is written before the reply is sent, a line of JSON after it, since it has the duration.
 */

import { randomInt } from 'node:crypto'
import type { Counter, DurationHistogram, MetricCounter } from '../../runtime/instruments.ts'
import type { Metrics } from '../../runtime/metrics.ts'
import type { Statistics } from '../../runtime/statistics.ts'
import type { Request } from '../../wire/request.ts'
import type { Answer } from './answer.ts'
import type { Call } from './call.ts'
import type { HttpContext } from './context.ts'
import type { Counted } from './route.ts'

/** Before the reply is sent. */
export function logAnswer(call: Call, { log, serverLog }: HttpContext, answer: Answer): void {
  const { requestId } = call
  if (serverLog.writes('debug')) log.debug('The headers of a request.', { ...masked(call), request_id: requestId })
  if (serverLog.format === 'text') {
    const line = `${call.peer} - - ${call.request.method} ${maskedUrl(call.url)} ${answer.status}`
    // The interface says how the line ends; release 3 has the id in it.
    log.info(call.dialect === '3' ? `${line} request_id="${requestId}"` : line)
  }
  if (answer.kind !== 'whole' || answer.status < 400) return
  const body = answer.body.toString().trim()
  const details = { request_id: requestId, method: call.method, url: maskedUrl(call.url), body }
  if (answer.status >= 500) log.error('A request failed.', details)
  else if (serverLog.writes('debug')) log.debug('A request was refused.', details)
}

/** After the reply is sent, or its connection lost. */
export function logRequest(
  call: Call,
  { log, serverLog }: HttpContext,
  { status, tookMs }: { readonly status: number; readonly tookMs: number },
): void {
  if (serverLog.format !== 'json') return
  const { method } = call.request
  const path = maskedUrl(call.url)
  log.info(`${method} ${path} ${status}`, {
    request_id: call.requestId,
    method,
    path,
    status,
    duration_ms: Math.round(tookMs * 1000) / 1000,
    user: call.authenticated?.user.name ?? null,
    peer: call.peer,
  })
}

const SECRET_HEADER = /authori[sz]ation|cookie|token|secret|password/i
function masked({ request }: Call): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(request.headers).map(([name, value]) => [name, SECRET_HEADER.test(name) ? '…' : value]),
  )
}

/** The target of a request as the log shows it, without secrets. Linear in its length. */
export function maskedUrl(url: string): string {
  // Nearly no target has a secret, and this runs for every request.
  if (!MAY_HAVE_SECRET.test(url)) return url
  return maskCredentials(maskParameters(url))
}

const SECRET_WORDS = ['token', 'secret', 'password', 'signature', 'callback_confirmed']
/** One of them, or a sign of credentials. */
const MAY_HAVE_SECRET = /token|secret|password|signature|callback_confirmed|@|%40/i

/** Values of parameters whose name has a secret word in it. */
function maskParameters(url: string): string {
  const start = url.indexOf('?')
  if (start < 0) return url
  const parameters = url.slice(start + 1).split('&')
  return `${url.slice(0, start + 1)}${parameters.map(maskParameter).join('&')}`
}

/** A target inside of a value may have parameters too: from its first secret on nothing is shown. */
function maskParameter(parameter: string): string {
  for (let start = 0; start >= 0; ) {
    const end = parameter.indexOf('=', start)
    if (end < 0) return parameter
    if (isSecretName(parameter.slice(start, end))) return `${parameter.slice(0, end + 1)}…`
    start = parameter.indexOf('?', end)
  }
  return parameter
}

function isSecretName(name: string): boolean {
  const lower = name.toLowerCase()
  return SECRET_WORDS.some((word) => lower.includes(word))
}

/** What stands between a scheme and an at sign, escaped or not: `http://name:password@host`. */
const BEGIN = /:\/\/|%3A%2F%2F/gi
/** What ends the search for an at sign: the sign, or a path. */
const END = /[/@]|%40/g

function maskCredentials(url: string): string {
  let masked = ''
  let shownTo = 0
  BEGIN.lastIndex = 0
  for (let begin = BEGIN.exec(url); begin; begin = BEGIN.exec(url)) {
    END.lastIndex = BEGIN.lastIndex
    const end = END.exec(url)
    if (!end) break
    if (end[0] !== '/') {
      masked += `${url.slice(shownTo, BEGIN.lastIndex)}…`
      shownTo = end.index
    }
    // A scheme before this end has the same end; its slash may itself belong to `://`.
    BEGIN.lastIndex = Math.max(BEGIN.lastIndex, end.index - 1)
  }
  return masked + url.slice(shownTo)
}

/** What a proxy may send: no blanks or quotes, so that it can go into a line of the log and a header as it is. */
const WELL_FORMED = /^[\w.:=+/-]{1,128}$/

/** The first one that is present counts. */
const REQUEST_HEADERS = ['x-service-request-id', 'x-couch-request-id', 'x-request-id']

/**
 * The id of a request. It is in the reply and in every line of the log about the request. Ten hexadecimal digits, or what
 * a proxy in front of the server sent.
 */
export function requestId({ headers }: Request, { isAccepted }: { readonly isAccepted: boolean }): string {
  if (!isAccepted) return nextId()
  const given = REQUEST_HEADERS.map((name) => headers[name]).find((value) => value !== undefined)
  return given !== undefined && WELL_FORMED.test(given) ? given : nextId()
}

const IDS_A_PREFIX = 2 ** 24
/** Three hexadecimal digits each. Two lookups are far cheaper than a random number for each request. */
const DIGITS = Array.from({ length: 4096 }, (_, number) => number.toString(16).padStart(3, '0'))

let prefix = ''
let ordinal = IDS_A_PREFIX

/** Unique in this process for 2^24 requests in a row; another process rarely has the same prefix. */
function nextId(): string {
  if (ordinal === IDS_A_PREFIX) {
    prefix = randomInt(2 ** 16)
      .toString(16)
      .padStart(4, '0')
    ordinal = 0
  }
  const id = prefix + DIGITS[ordinal >> 12] + DIGITS[ordinal & 4095]
  ordinal++
  return id
}

/** The counters of requests, looked up once: a lookup by name would cost every request. */
export class RequestStatistics {
  readonly #requests: Counter
  readonly #time: Counter
  readonly #methods: CounterMap<string>
  readonly #statuses: CounterMap<number>
  readonly #replies: ReplyCounts
  readonly #counted: CounterMap<Counted>
  readonly #durations: Readonly<Record<string, DurationHistogram>>
  readonly #otherDurations: DurationHistogram
  #inProgress = 0

  constructor(statistics: Statistics, metrics: Metrics) {
    const durations = (method: string) => {
      const help = 'length of a request inside the server, from its head to the end of its reply'
      return metrics.histogram('settle_request_duration_seconds', help, { method })
    }
    this.#durations = Object.fromEntries(MEASURED_METHODS.map((method) => [method, durations(method)]))
    this.#otherDurations = durations('other')
    metrics.gauge('settle_requests_in_progress', 'requests under way, feeds included', () => this.#inProgress)
    this.#requests = statistics.counter('httpd', 'requests')
    this.#time = statistics.counter('service', 'request_time')
    this.#methods = new CounterMap((method) => statistics.counter('httpd_request_methods', method))
    this.#statuses = new CounterMap((status) => statistics.counter('httpd_status_codes', String(status)))
    this.#replies = new ReplyCounts(metrics)
    this.#counted = new CounterMap((name) =>
      statistics.counter(name.startsWith('database_') ? 'service' : 'httpd', name),
    )
  }

  begin(method: string): void {
    this.#inProgress++
    this.#methods.get(method).add(1)
  }

  count(names: readonly Counted[]): void {
    for (const name of names) this.#counted.get(name).add(1)
  }

  /** `_stats` does not count files. */
  reply(status: number, { isFile }: { readonly isFile: boolean }): void {
    this.#replies.add(status)
    if (!isFile) this.#statuses.get(status).add(1)
  }

  end(method: string, tookMs: number): void {
    this.#inProgress--
    const durations = this.#durations[method] ?? this.#otherDurations
    durations.observe(tookMs)
    this.#requests.add(1)
    this.#time.observe(tookMs)
  }
}

/**
 * Counts replies by status, for Prometheus: all of them, also files and what is refused before it is a request. `_stats`
 * counts a fixed list of statuses.
 */
export class ReplyCounts {
  readonly #statuses: CounterMap<number, MetricCounter>

  constructor(metrics: Metrics) {
    this.#statuses = new CounterMap((status) =>
      metrics.counter('settle_replies_total', 'replies by status', { code: String(status) }),
    )
    // An alert on these needs a first value.
    for (const status of [200, 500, 503]) this.#statuses.get(status)
  }

  add(status: number): void {
    this.#statuses.get(status).add()
  }
}

const MEASURED_METHODS = ['COPY', 'DELETE', 'GET', 'HEAD', 'POST', 'PUT']

/** Bounded: the parser knows few methods, and statuses have three digits. */
class CounterMap<Name, Kind = Counter> {
  readonly #find: (name: Name) => Kind
  readonly #known = new Map<Name, Kind>()

  constructor(find: (name: Name) => Kind) {
    this.#find = find
  }

  get(name: Name): Kind {
    let counter = this.#known.get(name)
    if (!counter) {
      counter = this.#find(name)
      this.#known.set(name, counter)
    }
    return counter
  }
}
