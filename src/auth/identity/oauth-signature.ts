/** Verifies the OAuth signature of a request with the secrets that the server knows. */
import type { AuthRequest } from './auth-request.ts'
import type { HandlerTools } from './handler-tools.ts'
import {
  invalidConsumer,
  invalidSignature,
  invalidToken,
  isRightlySigned,
  type OAuthSecrets,
  type SignedRequest,
  signedRequest,
  unknownPair,
} from './oauth.ts'

type SignatureTools = Pick<HandlerTools, 'settings' | 'oauthUsers' | 'clock'>

/** The secrets of the consumer and token that a request names. Throws if there are none. */
export async function secretsOf(
  { consumerKey, token }: SignedRequest,
  { settings, oauthUsers }: SignatureTools,
): Promise<OAuthSecrets> {
  const found = settings.oauth.usesUsers
    ? await oauthUsers.find(consumerKey, token)
    : settings.oauthSecrets(consumerKey, token)
  if (!found) throw unknownPair()
  return found
}

/** Whether the signature is valid, and not too old where that matters. */
export function isSignedWith(
  secrets: OAuthSecrets,
  signed: SignedRequest,
  { settings, clock }: SignatureTools,
): boolean {
  if (!isRightlySigned(signed, secrets)) return false
  const { windowSeconds } = settings.oauth
  if (windowSeconds === undefined) return true
  return Math.abs(clock.nowMs() / 1000 - signed.timestamp) <= windowSeconds
}

/** Throws if a request that must be signed is not signed correctly. */
export async function requireSignature(
  request: AuthRequest,
  tools: SignatureTools,
  { needsToken }: { readonly needsToken: boolean },
): Promise<void> {
  const signed = signedRequest(request, tools.settings.frequent.current.forwarded)
  if (!signed) throw invalidConsumer()
  if (needsToken && signed.token === '') throw invalidToken()
  if (!isSignedWith(await secretsOf(signed, tools), signed, tools)) throw invalidSignature()
}
