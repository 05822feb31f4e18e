/**
 * JSON Web Tokens: users authenticated by another service. The keys are in the settings, by kind and name; a token is
 * valid for as long as it says.
 */
import { createHmac, createPublicKey, type KeyObject, timingSafeEqual, verify } from 'node:crypto'
import { parseTerm } from '../../config/term-text.ts'
import type { UserContext } from '../../database/user-context.ts'
import { badRequest } from '../../document/request-error.ts'
import { isObject } from '../../encoding/json/json-value.ts'
import { unauthorized } from '../rights/rights.ts'

export interface TokenSettings {
  /** By kind and name, such as `hmac:mine` or `rsa:_default`. */
  readonly keys: ReadonlyMap<string, string>
  /** A list such as `exp, {iss, "https://mine.example"}`. */
  readonly requiredClaims: string
  /** Those that count, comma separated; all where there is none. */
  readonly algorithms: string
  readonly rolesClaim: string | undefined
}

/** The token of a request; undefined where there is none. */
export function bearerToken(authorization: string | undefined): string | undefined {
  return /^Bearer +(\S+) *$/i.exec(authorization ?? '')?.[1]
}

/** Throws if the token is not valid. */
export function tokenUser(token: string, settings: TokenSettings, nowSeconds: number): UserContext {
  const [head = '', payload = '', signature = '', ...more] = token.split('.')
  if (more.length > 0) throw badRequest('Malformed token')
  checkSignature(`${head}.${payload}`, Buffer.from(signature, 'base64url'), decoded(head), settings)
  const claims = decoded(payload)
  checkTimes(claims, nowSeconds)
  checkRequired(claims, settings.requiredClaims)
  const { sub } = claims
  if (typeof sub !== 'string' || sub === '') throw badRequest('Token has no sub claim')
  return { name: sub, roles: rolesIn(claims, settings.rolesClaim) }
}

type Members = Readonly<Record<string, unknown>>

function decoded(part: string): Members {
  try {
    const value: unknown = JSON.parse(Buffer.from(part, 'base64url').toString())
    if (isObject(value)) return value
  } catch {
    // Refused below.
  }
  throw badRequest('Malformed token')
}

/** An algorithm is only used with keys of its own kind: a public key must never be used as a shared secret. */
const KINDS: Readonly<Record<string, string>> = { HS: 'hmac', RS: 'rsa', ES: 'ec' }

function checkSignature(signed: string, signature: Buffer, { alg, kid }: Members, settings: TokenSettings): void {
  const [, family = '', bits = ''] = /^(HS|RS|ES)(256|384|512)$/.exec(typeof alg === 'string' ? alg : '') ?? []
  const kind = KINDS[family]
  if (kind === undefined || !isAllowed(String(alg), settings.algorithms)) throw badRequest('Invalid alg header')
  const key = settings.keys.get(`${kind}:${typeof kid === 'string' ? kid : '_default'}`)
  if (!key) throw badRequest('Unknown kid')
  if (!isSigned(signed, signature, { kind, digest: `sha${bits}`, key })) throw badRequest('Bad signature')
}

function isAllowed(algorithm: string, list: string): boolean {
  const names = list.split(',').flatMap((name) => name.trim() || [])
  return names.length === 0 || names.includes(algorithm)
}

interface SigningKey {
  readonly kind: string
  readonly digest: string
  readonly key: string
}

function isSigned(signed: string, signature: Buffer, { kind, digest, key }: SigningKey): boolean {
  if (kind === 'hmac') {
    const expected = createHmac(digest, Buffer.from(key, 'base64')).update(signed).digest()
    return expected.length === signature.length && timingSafeEqual(expected, signature)
  }
  const publicKey = publicKeyOf(key)
  if (publicKey?.asymmetricKeyType !== kind) throw badRequest('Unusable key')
  return verify(digest, Buffer.from(signed), { key: publicKey, dsaEncoding: 'ieee-p1363' }, signature)
}

/** In a setting the line breaks of a PEM text are written as `\n`. Undefined where it is not a PEM text. */
function publicKeyOf(text: string): KeyObject | undefined {
  try {
    return createPublicKey(text.replaceAll('\\n', '\n'))
  } catch {
    return undefined
  }
}

function checkTimes({ exp, nbf }: Members, nowSeconds: number): void {
  if (exp !== undefined && typeof exp !== 'number') throw badRequest('exp must be a number')
  if (nbf !== undefined && typeof nbf !== 'number') throw badRequest('nbf must be a number')
  if (exp !== undefined && exp <= nowSeconds) throw unauthorized('exp not in future')
  if (nbf !== undefined && nbf > nowSeconds) throw unauthorized('nbf not in past')
}

function checkRequired(claims: Members, list: string): void {
  const required = parseTerm(`[${list}]`)
  if (!required) throw badRequest('The required claims of the settings cannot be read')
  for (const { text, items } of required.items) {
    const [name = text, value] = items.map((item) => item.text)
    if (claims[name] === undefined) throw badRequest(`Missing ${name} claim`)
    if (value !== undefined && claims[name] !== value) throw badRequest(`Invalid ${name} claim`)
  }
}

function rolesIn(claims: Members, renamed: string | undefined): string[] {
  const roles = renamed ? claims[renamed] : (claims['_service.roles'] ?? claims['_couchdb.roles'])
  return Array.isArray(roles) ? roles.filter((role) => typeof role === 'string') : []
}
