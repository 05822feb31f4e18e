/**
 * Users that a proxy in front of the server vouches for. Its headers are taken at their word: whoever can reach the
 * server beside the proxy can be anybody, unless the proxy has to sign the name.
 */
import { createHmac } from 'node:crypto'
import type { UserContext } from '../../database/user-context.ts'
import type { AuthSettings } from '../auth-settings.ts'
import { equalTexts } from '../passwords/passwords.ts'
import { type AuthRequest, eitherHeaderOf, utf8HeaderOf } from './auth-request.ts'

export function proxyUser(request: AuthRequest, settings: AuthSettings): UserContext | undefined {
  const { proxy, secret } = settings
  const header = (configured: string | undefined, usual: string) =>
    configured
      ? utf8HeaderOf(request, configured.toLowerCase())
      : eitherHeaderOf(request, `x-auth-service-${usual}`, `x-auth-couchdb-${usual}`)
  const name = header(proxy.username, 'username')
  if (!name) return undefined
  if (proxy.needsToken) {
    const token = header(proxy.token, 'token')
    if (!secret || token === undefined || !equalTexts(token, proxyToken(name, secret))) return undefined
  }
  const roles = header(proxy.roles, 'roles') ?? ''
  return { name, roles: roles.split(',').filter((role) => role !== '') }
}

/** What a proxy proves a name with. */
export function proxyToken(name: string, secret: string): string {
  return createHmac('sha1', secret).update(name).digest('hex')
}
