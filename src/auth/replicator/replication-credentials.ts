/** Replication documents without the passwords that they hold, for who is to see what is replicated but not how. */
import { spliceObject } from '../../encoding/json/json-text-splice.ts'
import { isObject } from '../../encoding/json/json-value.ts'
import { memberTexts } from '../users/user-edits.ts'

/** Of an endpoint: what is there to prove who one is. */
const SECRET_MEMBERS = new Set(['auth', 'oauth'])
const SECRET_HEADERS = /^(authorization|cookie|proxy-authorization|x-auth-.*)$/i

/** The same text, with `source` and `target` as everybody may see them. */
export function withoutCredentials(body: Buffer): Buffer {
  const members: Record<string, unknown> = JSON.parse(body.toString())
  const endpoints = ['source', 'target'].filter((name) => Object.hasOwn(members, name))
  const rest = memberTexts(body, (name) => !endpoints.includes(name))
  const shown = endpoints.map((name) => `"${name}":${JSON.stringify(endpointWithout(members[name]))}`)
  return spliceObject([...shown, ...rest])
}

function endpointWithout(endpoint: unknown): unknown {
  if (typeof endpoint === 'string') return addressWithout(endpoint)
  if (!isObject(endpoint)) return endpoint
  const kept = Object.entries(endpoint).filter(([name]) => !SECRET_MEMBERS.has(name))
  return Object.fromEntries(kept.map(([name, value]) => [name, memberWithout(name, value)]))
}

function memberWithout(name: string, value: unknown): unknown {
  if (name === 'url' && typeof value === 'string') return addressWithout(value)
  if (name !== 'headers' || !isObject(value)) return value
  return Object.fromEntries(Object.entries(value).filter(([header]) => !SECRET_HEADERS.test(header)))
}

/** A password may hold a slash, though it should not: what lies between a colon and an at sign goes in any case. */
function addressWithout(address: string): string {
  return address.replace(/^([a-z][a-z0-9+.-]*:\/\/)(?:[^/?#@]*|[^:/?#@]*:[^@]*)@/i, '$1')
}
