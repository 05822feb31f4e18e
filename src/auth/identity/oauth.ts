/** OAuth 1.0 (RFC 5849): a request signed with the secrets of a consumer and of a token that belongs to a user. */
import { createHmac } from 'node:crypto'
import { RequestError } from '../../document/request-error.ts'
import { equalTexts } from '../passwords/passwords.ts'
import { type AuthRequest, targetOf } from './auth-request.ts'

/** The secrets of a consumer and a token, and the user of the token. */
export interface OAuthSecrets {
  readonly consumer: string
  readonly token: string
  readonly user: string
}

/** A request that claims to be signed. */
export interface SignedRequest {
  readonly consumerKey: string
  readonly token: string
  readonly method: string
  readonly signature: string
  /** Seconds since 1970; not a number where the request does not say. */
  readonly timestamp: number
  readonly baseString: string
}

/** The headers in which a proxy in front of the server passes on how its client connected. */
export interface ForwardedNames {
  readonly host: string
  readonly ssl: string
  readonly proto: string
}

/** Undefined if the request is not signed. Throws if it is signed with an unsupported method. */
export function signedRequest(request: AuthRequest, forwarded: ForwardedNames): SignedRequest | undefined {
  // A fast check, since most requests are not signed. An underscore may be escaped.
  const authorization = request.headers.authorization
  const hasSign = (authorization !== undefined && MENTIONED.test(authorization)) || request.url.includes('?')
  if (!hasSign) return undefined
  const { path, query } = targetOf(request)
  const inHeader = headerParameters(authorization)
  if (inHeader.length === 0 && !MENTIONED.test(query)) return undefined
  const parameters = [...inHeader, ...queryParameters(query)]
  const value = (name: string) => parameters.find(([each]) => each === name)?.[1]
  const version = value('oauth_version')
  if (version !== undefined && version !== '1.0') throw refusal('invalid_oauth_version', 'Invalid OAuth version.')
  const consumerKey = value('oauth_consumer_key')
  if (consumerKey === undefined) return undefined
  return {
    consumerKey,
    token: value('oauth_token') ?? '',
    method: value('oauth_signature_method') ?? '',
    signature: value('oauth_signature') ?? '',
    timestamp: Number(value('oauth_timestamp') ?? Number.NaN),
    baseString: baseString(request.method, originOf(request, forwarded) + path, parameters),
  }
}

export function unknownPair(): RequestError {
  return refusal('invalid_consumer_token_pair', 'Invalid consumer and token pair.')
}

export function invalidConsumer(): RequestError {
  return refusal('invalid_consumer', 'Invalid consumer.')
}

export function invalidToken(): RequestError {
  return refusal('invalid_token', 'Invalid OAuth token.')
}

export function invalidSignature(): RequestError {
  return refusal('invalid_signature', 'Invalid signature value.')
}

export function ambiguousPair(): RequestError {
  return refusal('oauth_token_consumer_key_pair', 'Found multiple OAuth credentials for the same consumer and token.')
}

/** Whether the signature is the one that these secrets give. */
export function isRightlySigned(signed: SignedRequest, secrets: OAuthSecrets): boolean {
  return equalTexts(signed.signature, expectedSignature(signed, secrets))
}

export function expectedSignature(
  { method, baseString }: Pick<SignedRequest, 'method' | 'baseString'>,
  secrets: Pick<OAuthSecrets, 'consumer' | 'token'>,
): string {
  const key = `${encode(secrets.consumer)}&${encode(secrets.token)}`
  if (method === 'PLAINTEXT') return key
  if (method === 'HMAC-SHA1') return createHmac('sha1', key).update(baseString).digest('base64')
  throw invalidSignature()
}

const MENTIONED = /oauth/i

type Parameter = readonly [name: string, value: string]

const USUAL_PORT = { http: '80', https: '443' }

/** What is signed: the method, the address without its query, and all parameters in order. */
export function baseString(method: string, url: string, parameters: readonly Parameter[]): string {
  const signed = parameters
    .filter(([name]) => name !== 'oauth_signature' && name !== 'realm')
    .map(([name, value]) => [encode(name), encode(value)] as const)
    .sort(([nameA, valueA], [nameB, valueB]) => compare(nameA, nameB) || compare(valueA, valueB))
  const joined = signed.map(([name, value]) => `${name}=${value}`).join('&')
  return `${method.toUpperCase()}&${encode(url)}&${encode(joined)}`
}

/** Scheme and host as the client knows them. */
function originOf(request: AuthRequest, names: ForwardedNames): string {
  const isForwarded = request.headers[names.ssl]?.toLowerCase() === 'on' || request.headers[names.proto] === 'https'
  const scheme = request.isSecure || isForwarded ? 'https' : 'http'
  const address = request.headers[names.host] ?? request.headers.host ?? request.localAddress
  const [, host = address, port] = /^(.*?)(?::(\d+))?$/.exec(address.toLowerCase()) ?? []
  return `${scheme}://${host}${port === undefined || port === USUAL_PORT[scheme] ? '' : `:${port}`}`
}

/** Names and values are escaped, so a comma is always one between them. */
function headerParameters(authorization: string | undefined): Parameter[] {
  if (!authorization || !/^oauth\s/i.test(authorization)) return []
  return authorization
    .slice('oauth '.length)
    .split(',')
    .map((pair) => split(pair.trim()))
    .filter(([, value]) => value.length > 1 && value.startsWith('"') && value.endsWith('"'))
    .map(([name, value]) => [decode(name.trim()), decode(value.slice(1, -1))])
}

/** A plus is a space in a query. */
function queryParameters(query: string): Parameter[] {
  return query
    .split('&')
    .filter((pair) => pair !== '')
    .map((pair) => split(pair.replaceAll('+', ' ')))
    .map(([name, value]) => [decode(name), decode(value)])
}

/** At the first equals sign. */
function split(pair: string): Parameter {
  const equals = pair.indexOf('=')
  return equals < 0 ? [pair, ''] : [pair.slice(0, equals), pair.slice(equals + 1).trimStart()]
}

/** All but the unreserved characters is escaped. */
function encode(text: string): string {
  return encodeURIComponent(text.toWellFormed()).replace(
    /[!'()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  )
}

/** What cannot be decoded is taken literally: the signature will not match. */
function decode(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

/** By bytes; what is encoded has no others than ASCII. */
function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}

function refusal(error: string, reason: string): RequestError {
  return new RequestError('invalid', error, reason)
}
