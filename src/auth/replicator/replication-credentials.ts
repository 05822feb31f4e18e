/** Replication documents without the passwords that they hold, for who is to see what is replicated but not how. */
import { spliceObject } from '../../encoding/json/json-text-splice.ts'
import { isObject } from '../../encoding/json/json-value.ts'
import { memberTexts } from '../users/user-edits.ts'
import { addressWithoutCredentials } from './address-credentials.ts'

/** Of an endpoint: what is there to prove who one is. */
const SECRET_MEMBERS = new Set(['auth', 'oauth'])
const SECRET_HEADERS = /auth|cookie|key|password|secret|signature|token/i

/** Members that hold addresses. */
const ENDPOINTS = ['source', 'target', 'proxy', 'source_proxy', 'target_proxy']

/** The same text, with its addresses as everybody may see them. */
export function withoutCredentials(body: Buffer): Buffer {
  const members: Record<string, unknown> = JSON.parse(body.toString())
  const endpoints = ENDPOINTS.filter((name) => Object.hasOwn(members, name))
  const rest = memberTexts(body, (name) => !endpoints.includes(name))
  const shown = endpoints.map((name) => `"${name}":${JSON.stringify(endpointWithout(members[name]))}`)
  return spliceObject([...shown, ...rest])
}

function endpointWithout(endpoint: unknown): unknown {
  if (typeof endpoint === 'string') return addressWithoutCredentials(endpoint)
  if (!isObject(endpoint)) return endpoint
  const kept = Object.entries(endpoint).filter(([name]) => !SECRET_MEMBERS.has(name))
  return Object.fromEntries(kept.map(([name, value]) => [name, memberWithout(name, value)]))
}

function memberWithout(name: string, value: unknown): unknown {
  if (name === 'url' && typeof value === 'string') return addressWithoutCredentials(value)
  if (name !== 'headers' || !isObject(value)) return value
  return Object.fromEntries(Object.entries(value).filter(([header]) => !SECRET_HEADERS.test(header)))
}
