/**
 * What browsers may do with this server: which pages of other origins may use it (CORS, called where it is switched
 * on), and what content that users put here may do (the policies of `[csp]`).
 */
import type { Configuration } from '../../config/configuration.ts'
import type { Answer, Headers } from '../server/answer.ts'
import type { Call } from '../server/call.ts'
import type { HttpContext } from '../server/context.ts'
import type { RequestSettings } from '../server/request-settings.ts'

const METHODS = 'GET, HEAD, POST, PUT, DELETE, TRACE, CONNECT, COPY, OPTIONS'
const HEADERS =
  'Accept, Accept-Language, Content-Type, Expires, Last-Modified, Pragma, Origin, Content-Length, If-Match, ' +
  'Destination, X-Requested-With, X-Http-Method-Override, Content-Range'
const MAX_AGE_SECONDS = '12345'

/** Headers of a reply that a script may read. */
const EXPOSED = [
  'Accept-Ranges',
  'Cache-Control',
  'Content-Language',
  'Content-Type',
  'Etag',
  'Expires',
  'Last-Modified',
  'Pragma',
  'Server',
]

/** The reply to a CORS preflight; undefined if it is not one, or not allowed. */
export function preflight(call: Call, { configuration }: HttpContext): Answer | undefined {
  if (call.method !== 'OPTIONS') return undefined
  const policy = policyFor(call, configuration)
  if (!policy) return undefined
  const headers: Record<string, string> = {
    ...policy.headers,
    'Access-Control-Max-Age': policy.setting('max_age') ?? MAX_AGE_SECONDS,
    'Access-Control-Allow-Methods': policy.setting('methods') ?? METHODS,
  }
  const method = call.header('access-control-request-method')
  if (method !== undefined) {
    if (!listed(headers['Access-Control-Allow-Methods'] ?? '').includes(method)) return undefined
    const asked = call.header('access-control-request-headers') ?? ''
    const allowed = listed((policy.setting('headers') ?? HEADERS).toLowerCase())
    if (!listed(asked.toLowerCase()).every((name) => allowed.includes(name))) return undefined
    headers['Access-Control-Allow-Headers'] = asked
  }
  return { kind: 'whole', status: 204, headers, body: '' }
}

/** The reply with what a browser needs in order to hand it to a page of another server. */
export function withCorsHeaders(call: Call, { configuration }: HttpContext, answer: Answer): Answer {
  const varied = { ...answer, headers: { ...answer.headers, Vary: withOrigin(answer.headers.Vary) } }
  const policy = policyFor(call, configuration)
  if (!policy || answer.headers['Access-Control-Allow-Origin'] !== undefined) return varied
  const present = new Set(['cache-control', 'server', ...(answer.status === 304 ? [] : ['content-type'])])
  for (const name of Object.keys(answer.headers)) present.add(name.toLowerCase())
  const exposed = EXPOSED.filter((name) => present.has(name.toLowerCase())).join(', ')
  return {
    ...varied,
    headers: { ...varied.headers, ...policy.headers, 'Access-Control-Expose-Headers': exposed },
  }
}

/** A cache must not give the reply for one origin to another. */
function withOrigin(vary: string | undefined): string {
  if (vary === undefined || vary === '') return 'Origin'
  const names = listed(vary.toLowerCase())
  return names.includes('*') || names.includes('origin') ? vary : `${vary}, Origin`
}

interface Policy {
  /** A setting of the host, or else of all hosts. */
  setting(key: string): string | undefined
  readonly headers: Headers
}

/** Undefined when the origin of the call is not to be let in. */
function policyFor(call: Call, configuration: Configuration): Policy | undefined {
  const origin = call.header('origin')
  if (origin === undefined) return undefined
  const section = `cors:${call.host.replace(/:\d+$/, '')}`
  const setting = (key: string) => configuration.get(section, key) ?? configuration.get('cors', key)
  const origins = listed(setting('origins') ?? '')
  if (!origins.includes('*') && !origins.includes(origin)) return undefined
  const isTrusted = setting('credentials') === 'true' && (!origins.includes('*') || isForAnyOrigin(setting))
  return {
    setting,
    headers: {
      'Access-Control-Allow-Origin': origin,
      ...(isTrusted && { 'Access-Control-Allow-Credentials': 'true' }),
    },
  }
}

/** Credentials for any origin let any page act as the user who views it: this needs a setting of its own. */
function isForAnyOrigin(setting: Policy['setting']): boolean {
  return setting('credentials_for_any_origin') === 'true'
}

/** The hosts that let every page act as the user who views it; `*` stands for those without settings of their own. */
export function hostsWithoutOriginCheck(configuration: Configuration): string[] {
  if (configuration.get('httpd', 'enable_cors') !== 'true') return []
  return configuration.sections().flatMap((section) => {
    if (section !== 'cors' && !section.startsWith('cors:')) return []
    const setting = (key: string) => configuration.get(section, key) ?? configuration.get('cors', key)
    const isOpen = setting('credentials') === 'true' && listed(setting('origins') ?? '').includes('*')
    return isOpen && isForAnyOrigin(setting) ? [section === 'cors' ? '*' : section.slice('cors:'.length)] : []
  })
}

function listed(text: string): string[] {
  return text.split(/[\s,]+/).filter((item) => item !== '')
}

export type PolicyKind = 'attachments' | 'showlist' | 'utils'

/** Browsers must not guess another type from the bytes. */
export const NO_SNIFFING: Headers = { 'X-Content-Type-Options': 'nosniff' }

/**
 * The policy for attachments and for what functions return. They come from the same origin as the server itself, so
 * scripts in them would act as the user who opens them. Empty unless the operator has switched it on.
 */
export function contentPolicy({ contentPolicies }: RequestSettings, kind: PolicyKind): Headers {
  const value = contentPolicies[kind]
  return value === undefined ? NONE : { 'Content-Security-Policy': value }
}

const NONE: Headers = {}
