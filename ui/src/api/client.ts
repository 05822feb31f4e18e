/**
 * Requests to the server. Replies are texts first, so that numbers keep their digits; errors say what was tried and
 * what the server answered. If the session has expired, a request waits for the password and is then sent again.
 */

/** The root of the server, however the interface is reached. */
export const serverRoot = new URL('..', new URL('.', location.href)).href

export class ApiError extends Error {
  readonly status: number
  readonly error: string
  readonly reason: string
  readonly request: string

  constructor(status: number, error: string, reason: string, request: string) {
    super(reason || error)
    this.status = status
    this.error = error
    this.reason = reason
    this.request = request
  }
}

/** The server does not respond. */
export class UnreachableError extends Error {
  readonly request: string

  constructor(request: string) {
    super('The server does not respond.')
    this.request = request
  }
}

/** The reply exceeds its limit: nothing large is loaded unexpectedly. */
export class TooLargeError extends Error {
  readonly limitBytes: number

  constructor(limitBytes: number) {
    super(`The reply is larger than ${Math.round(limitBytes / 1024).toLocaleString('en')} KB.`)
    this.limitBytes = limitBytes
  }
}

export interface RequestOptions {
  readonly method?: string
  /** A JSON text, or a value that becomes one. */
  readonly json?: unknown
  readonly jsonText?: string
  readonly query?: Readonly<Record<string, string | number | boolean | undefined>>
  readonly headers?: Record<string, string>
  readonly signal?: AbortSignal
  readonly limitBytes?: number
}

/**
 * The path of a resource: each part is one segment, whatever is in it. Browsers resolve `.` and `..` in addresses, escaped
 * or not: such a request would be for another resource, so it is not made.
 */
export function path(...segments: string[]): string {
  const bad = segments.find((segment) => segment === '' || segment === '.' || segment === '..')
  if (bad !== undefined) {
    const reason = `A browser cannot request a resource named “${bad}”. Other clients can.`
    throw new ApiError(400, 'bad_request', reason, segments.join('/'))
  }
  return segments.map(encodeURIComponent).join('/')
}

/** Design and local documents have two segments. */
export function documentPath(database: string, id: string): string {
  const [, kind, name] = /^(_design|_local)\/(.*)$/s.exec(id) ?? []
  return kind !== undefined && name !== undefined ? `${path(database)}/${kind}/${path(name)}` : path(database, id)
}

export function urlOf(resource: string, query: RequestOptions['query'] = {}): string {
  const given = Object.entries(query).flatMap(([name, value]) => (value === undefined ? [] : [[name, String(value)]]))
  const text = new URLSearchParams(given).toString()
  return serverRoot + resource + (text === '' ? '' : `?${text}`)
}

export async function requestJson<T>(resource: string, options: RequestOptions = {}): Promise<T> {
  const text = await requestText(resource, options)
  return JSON.parse(text)
}

export async function requestText(resource: string, options: RequestOptions = {}): Promise<string> {
  const reply = await send(resource, options)
  return readText(reply, options.limitBytes)
}

/** Asks for the password when the session has expired; resolves after the login. */
type Reauthenticate = () => Promise<boolean>
let reauthenticate: Reauthenticate | undefined

export function onSessionExpired(ask: Reauthenticate): void {
  reauthenticate = ask
}

/** The reply, only its head read. Throws if it is an error. */
export async function send(resource: string, options: RequestOptions = {}): Promise<Response> {
  const reply = await exchange(resource, options)
  if (reply.ok) return reply
  const failure = await errorOf(reply, describe(resource, options))
  if (reply.status === 401 && !resource.startsWith('_session') && (await reauthenticate?.())) {
    const again = await exchange(resource, options)
    if (again.ok) return again
    throw await errorOf(again, describe(resource, options))
  }
  throw failure
}

/** Called after each request with whether the server responded. */
let reportReachable: (isReachable: boolean) => void = () => {}

export function onReachable(report: (isReachable: boolean) => void): void {
  reportReachable = report
}

async function exchange(resource: string, options: RequestOptions): Promise<Response> {
  const { method = 'GET', query, signal } = options
  const headers: Record<string, string> = { Accept: 'application/json', ...options.headers }
  const body = options.jsonText ?? (options.json === undefined ? undefined : JSON.stringify(options.json))
  // The server requires the type even without a body.
  if (body !== undefined || method === 'POST') headers['Content-Type'] ??= 'application/json'
  try {
    const reply = await fetch(urlOf(resource, query), {
      method,
      headers,
      credentials: 'same-origin',
      cache: 'no-store',
      ...(body !== undefined && { body }),
      ...(signal && { signal }),
    })
    reportReachable(true)
    return reply
  } catch (error) {
    if (signal?.aborted) throw error
    reportReachable(false)
    throw new UnreachableError(describe(resource, options))
  }
}

function describe(resource: string, { method = 'GET' }: RequestOptions): string {
  return `${method} /${resource}`
}

async function errorOf(reply: Response, request: string): Promise<ApiError> {
  const text = await reply.text().catch(() => '')
  const [error, reason] = toldIn(text, reply.statusText)
  return new ApiError(reply.status, error, reason, request)
}

function toldIn(text: string, statusText: string): [error: string, reason: string] {
  try {
    const { error, reason } = JSON.parse(text)
    const shown = typeof reason === 'string' ? reason : JSON.stringify(reason ?? '')
    return [typeof error === 'string' ? error : statusText, shown]
  } catch {
    return [statusText || 'error', text.slice(0, 500)]
  }
}

async function readText(reply: Response, limitBytes = Number.POSITIVE_INFINITY): Promise<string> {
  if (limitBytes === Number.POSITIVE_INFINITY || !reply.body) return reply.text()
  const decoder = new TextDecoder()
  const reader = reply.body.getReader()
  let text = ''
  let sizeBytes = 0
  while (true) {
    const { done, value } = await reader.read()
    if (done) return text + decoder.decode()
    sizeBytes += value.length
    if (sizeBytes > limitBytes) {
      await reader.cancel()
      throw new TooLargeError(limitBytes)
    }
    text += decoder.decode(value, { stream: true })
  }
}

/** The message for the user. */
export function sentenceOf(error: unknown): string {
  if (error instanceof ApiError) {
    const reason = error.reason || error.error
    return /[.!?]$/.test(reason) ? reason : `${reason}.`
  }
  return error instanceof Error ? error.message : String(error)
}
