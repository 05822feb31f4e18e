/** Credentials for a remote peer: a name and a password, or OAuth 1.0. */
import { createSign, randomBytes } from 'node:crypto'
import { baseString, expectedSignature } from '../../auth/identity/oauth.ts'
import { badRequest } from '../../document/request-error.ts'
import { isObject } from '../../encoding/json/json-value.ts'

export type Credentials = PasswordCredentials | OAuthCredentials

/** What a request is for; path and query are escaped. */
export interface Place {
  readonly origin: string
  readonly path: string
  readonly query: string
}

export interface PasswordCredentials {
  readonly kind: 'password'
  readonly name: string
  readonly password: string
}

export interface OAuthCredentials {
  readonly kind: 'oauth'
  readonly consumerKey: string
  readonly consumerSecret: string
  readonly token: string
  readonly tokenSecret: string
  readonly method: SignatureMethod
}

const SIGNATURE_METHODS = ['HMAC-SHA1', 'PLAINTEXT', 'RSA-SHA1'] as const
type SignatureMethod = (typeof SIGNATURE_METHODS)[number]

/** From the `auth` object of an endpoint, or else from its URL. */
export function credentialsIn(auth: unknown, url: URL, field: string): Credentials | undefined {
  if (auth === undefined || auth === null) return credentialsOf(url)
  if (!isObject(auth)) throw badRequest(`\`${field}.auth\` must be a non-null object.`)
  const { basic, oauth } = auth
  if (isObject(oauth)) return oauthCredentials(oauth, field)
  if (isObject(basic)) {
    const { username, password } = basic
    if (typeof username !== 'string' || typeof password !== 'string') {
      throw badRequest(`\`${field}.auth.basic\` must have a username and a password.`)
    }
    return { kind: 'password', name: username, password }
  }
  return credentialsOf(url)
}

function credentialsOf({ username, password }: URL): PasswordCredentials | undefined {
  if (username === '' && password === '') return undefined
  return { kind: 'password', name: unescaped(username), password: unescaped(password) }
}

function unescaped(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

function oauthCredentials(oauth: Readonly<Record<string, unknown>>, field: string): OAuthCredentials {
  const text = (name: string): string => {
    const value = oauth[name]
    if (typeof value === 'string') return value
    throw badRequest(`\`${field}.auth.oauth\` must have a string \`${name}\`.`)
  }
  const given = oauth.signature_method ?? 'HMAC-SHA1'
  const method = SIGNATURE_METHODS.find((each) => each === given)
  if (!method) throw badRequest(`\`${field}.auth.oauth.signature_method\` is not known.`)
  return {
    kind: 'oauth',
    consumerKey: text('consumer_key'),
    consumerSecret: text('consumer_secret'),
    token: text('token'),
    tokenSecret: text('token_secret'),
    method,
  }
}

export function basicAuthorization({ name, password }: PasswordCredentials): string {
  return `Basic ${Buffer.from(`${name}:${password}`).toString('base64')}`
}

/** The `Authorization` header of one request. */
export function oauthAuthorization(
  credentials: OAuthCredentials,
  method: string,
  { origin, path, query }: Place,
  nowMs: number,
): string {
  const own: [string, string][] = [
    ['oauth_consumer_key', credentials.consumerKey],
    ['oauth_nonce', randomBytes(16).toString('hex')],
    ['oauth_signature_method', credentials.method],
    ['oauth_timestamp', String(Math.floor(nowMs / 1000))],
    ['oauth_token', credentials.token],
    ['oauth_version', '1.0'],
  ]
  const signed = baseString(method, origin + path, [...own, ...new URLSearchParams(query)])
  const parameters = [...own, ['oauth_signature', signatureOf(credentials, signed)]]
  return `OAuth ${parameters.map(([name, value]) => `${name}="${encodeURIComponent(value ?? '')}"`).join(', ')}`
}

function signatureOf({ method, consumerSecret, tokenSecret }: OAuthCredentials, signed: string): string {
  // The secret of the consumer is its private key then.
  if (method === 'RSA-SHA1') return createSign('RSA-SHA1').update(signed).sign(consumerSecret, 'base64')
  return expectedSignature({ method, baseString: signed }, { consumer: consumerSecret, token: tokenSecret })
}
