/**
 * `/_oauth`: the endpoints that OAuth 1.0 requires. They check the signature and return the fixed tokens that CouchDB
 * returns; tokens are bound to users in the configuration, not here.
 */

import { notFound } from '../../document/request-error.ts'
import type { Answer } from '../server/answer.ts'
import { authenticationOf } from '../server/authentication.ts'
import type { Call } from '../server/call.ts'
import { MethodNotAllowedError } from '../server/errors.ts'

interface Address {
  /** Undefined for every method. */
  readonly methods?: readonly string[]
  readonly needsToken: boolean
  readonly tokens: string
}

const REQUEST_TOKENS = 'oauth_token=requestkey&oauth_token_secret=requestsecret'
const ACCESS_TOKENS = 'oauth_token=accesskey&oauth_token_secret=accesssecret'

const ADDRESSES = new Map<string, Address>([
  ['request_token', { needsToken: false, tokens: REQUEST_TOKENS }],
  ['authorize', { methods: ['GET', 'POST'], needsToken: false, tokens: REQUEST_TOKENS }],
  ['access_token', { methods: ['GET'], needsToken: true, tokens: ACCESS_TOKENS }],
])

export async function oauth(call: Call): Promise<Answer> {
  const address = call.segments.length === 2 ? ADDRESSES.get(call.segment(1)) : undefined
  if (!address) throw notFound('missing')
  const { methods, needsToken, tokens } = address
  const method = call.method === 'HEAD' ? 'GET' : call.method
  if (methods && !methods.includes(method)) throw new MethodNotAllowedError(methods.join())
  const { auth, request } = authenticationOf(call)
  await auth.requireSignature(request, { needsToken })
  const headers = { 'Content-Type': 'application/x-www-form-urlencoded' }
  return { kind: 'whole', status: 200, headers, body: tokens }
}
