/** The address of a peer: a database of this server by its name, or of another server by its URL. */

import { addressWithoutPassword } from '../../auth/replicator/address-credentials.ts'
import { badRequest } from '../../document/request-error.ts'
import { isObject } from '../../encoding/json/json-value.ts'
import { type Credentials, credentialsIn } from '../client/credentials.ts'

export type Address = LocalAddress | RemoteAddress

export interface LocalAddress {
  readonly kind: 'local'
  readonly name: string
  /** For logs and replies. */
  readonly shown: string
}

export interface RemoteAddress {
  readonly kind: 'remote'
  /** Without credentials, with a slash at its end. */
  readonly url: string
  readonly credentials: Credentials | undefined
  /** What is sent with every request, by lower-case names. */
  readonly headers: Readonly<Record<string, string>>
  /** For logs and replies: the password is hidden. */
  readonly shown: string
}

/** `field` is the name of the member, for the error. */
export function addressIn(value: unknown, field: 'source' | 'target'): Address {
  if (typeof value === 'string') return addressOf(value, field, {}, undefined)
  if (!isObject(value)) {
    throw badRequest(`The \`${field}\` field must exist and be either a string or an object.`)
  }
  const { url, headers, auth } = value
  if (typeof url !== 'string' || url === '') {
    throw badRequest(`The url property must exist in the \`${field}\` field and must be a non-empty string.`)
  }
  return addressOf(url, field, headersIn(headers, field), auth)
}

function addressOf(text: string, field: string, headers: Readonly<Record<string, string>>, auth: unknown): Address {
  if (!/^https?:\/\//i.test(text)) {
    const name = text.replace(/\/$/, '')
    if (name === '') throw badRequest(`The \`${field}\` field must not be empty.`)
    if (/^[a-z][a-z0-9+.-]*:\/\//i.test(name)) throw badRequest(`The \`${field}\` URL must begin with http or https.`)
    return { kind: 'local', name, shown: name }
  }
  const url = URL.parse(text)
  if (!url || url.pathname === '/') throw badRequest(`The \`${field}\` URL does not name a database.`)
  const credentials = credentialsIn(auth, url, field)
  const { name } = { name: url.username }
  const hidden = name === '' ? '' : `${name}${url.password === '' ? '' : ':*****'}@`
  url.username = ''
  url.password = ''
  url.hash = ''
  url.search = ''
  if (!url.pathname.endsWith('/')) url.pathname += '/'
  const shown = `${url.protocol}//${hidden}${url.host}${url.pathname}`
  return { kind: 'remote', url: url.href, credentials, headers, shown }
}

const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/
const HEADER_VALUE = /^[\t\x20-\x7e\x80-\xff]*$/
/** The HTTP client sets these itself. */
const OWN_HEADERS = new Set(['connection', 'content-length', 'host', 'keep-alive', 'transfer-encoding', 'upgrade'])

function headersIn(value: unknown, field: string): Readonly<Record<string, string>> {
  if (value === undefined || value === null) return {}
  if (!isObject(value)) throw badRequest(`\`${field}.headers\` must be a non-null object.`)
  const headers = new Map<string, string>()
  for (const [name, text] of Object.entries(value)) {
    if (typeof text !== 'string' || !HEADER_NAME.test(name) || !HEADER_VALUE.test(text)) {
      throw badRequest(`\`${field}.headers\` must hold names and values of headers.`)
    }
    if (OWN_HEADERS.has(name.toLowerCase())) throw badRequest(`\`${field}.headers\` must not set ${name}.`)
    headers.set(name.toLowerCase(), text)
  }
  return Object.fromEntries(headers)
}

/** The address in a document, for replies: the name or the URL with its password hidden; null if there is none. */
export function shownAddress(address: unknown): string | null {
  const text = isObject(address) ? address.url : address
  if (typeof text !== 'string') return null
  return addressWithoutPassword(text)
}
