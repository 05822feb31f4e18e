/**
 * The cookie of a session. It contains the name and the time, signed with the server's secret and the salt of the
 * user's password: it cannot be forged, and a new password ends it. The server keeps no state.
 */
import { createHmac, timingSafeEqual } from 'node:crypto'
import { badRequest } from '../../document/request-error.ts'
import { RecentMap } from '../users/recent-map.ts'

/** What a cookie claims; nothing of it is proved yet. */
export interface SessionToken {
  readonly name: string
  /** Seconds since 1970, as upper-case hexadecimal digits. */
  readonly time: string
  readonly mac: Buffer
}

export interface SessionKey {
  readonly secret: string
  /** Of the user's password. */
  readonly salt: string
}

const COOKIE_NAME = 'AuthSession'

/** The part of its lifetime after which a session is renewed. */
const RENEWAL_SHARE = 0.1

export function makeToken(name: string, nowSeconds: number, key: SessionKey): string {
  const signed = `${name}:${nowSeconds.toString(16).toUpperCase()}`
  return Buffer.concat([Buffer.from(`${signed}:`), macOf(signed, key)]).toString('base64url')
}

/** The token of a Cookie header; undefined if there is none. Throws if it is malformed. */
export function tokenOf(cookies: string | undefined): SessionToken | undefined {
  const value = cookies === undefined ? undefined : cookieValue(cookies)
  return value ? parseToken(value) : undefined
}

/** Whether there is one, whatever it says. */
export function hasSessionCookie(cookies: string | undefined): boolean {
  return cookies !== undefined && cookieValue(cookies) !== undefined
}

/** The creation time of the token in seconds, if it was signed with this key. */
export function provenTime(token: SessionToken, key: SessionKey): number | undefined {
  const mac = macOf(`${token.name}:${token.time}`, key)
  return mac.length === token.mac.length && timingSafeEqual(mac, token.mac) ? timeOf(token) : undefined
}

/** The age of a token: valid, due for renewal, or expired. */
export function ageOf(
  madeSeconds: number,
  { nowSeconds, timeoutSeconds }: { nowSeconds: number; timeoutSeconds: number },
): 'valid' | 'renewal due' | 'over' {
  const leftSeconds = madeSeconds + timeoutSeconds - nowSeconds
  if (leftSeconds <= 0) return 'over'
  // Created while the clock was ahead: it would be valid for too long.
  if (leftSeconds > 2 * timeoutSeconds) return 'over'
  return leftSeconds < timeoutSeconds * (1 - RENEWAL_SHARE) ? 'renewal due' : 'valid'
}

export interface CookieOptions {
  /** The connection uses TLS, so the cookie must not be sent without it. */
  readonly isSecure: boolean
  readonly sameSite: string | undefined
  /** For a cookie that outlives the browser. */
  readonly lasting?: { readonly nowSeconds: number; readonly timeoutSeconds: number } | undefined
}

/** The value of Set-Cookie; an empty token removes the cookie. */
export function setCookie(token: string, { isSecure, sameSite, lasting }: CookieOptions): string {
  const parts = [`${COOKIE_NAME}=${token}`, 'Version=1']
  if (lasting && token !== '') {
    parts.push(
      `Expires=${cookieDate(lasting.nowSeconds + lasting.timeoutSeconds)}`,
      `Max-Age=${lasting.timeoutSeconds}`,
    )
  }
  if (isSecure) parts.push('Secure')
  parts.push('Path=/', 'HttpOnly')
  if (sameSite) parts.push(`SameSite=${sameSite}`)
  return parts.join('; ')
}

const COLON = 0x3a

function cookieValue(cookies: string): string | undefined {
  for (const pair of cookies.split(';')) {
    const equals = pair.indexOf('=')
    if (equals < 0 || pair.slice(0, equals).trim() !== COOKIE_NAME) continue
    const value = pair.slice(equals + 1).trim()
    return value.startsWith('"') && value.endsWith('"') && value.length > 1 ? value.slice(1, -1) : value
  }
  return undefined
}

function parseToken(value: string): SessionToken {
  const bytes = /^[A-Za-z0-9_-]+={0,2}$/.test(value) ? Buffer.from(value, 'base64url') : Buffer.alloc(0)
  const first = bytes.indexOf(COLON)
  const second = first < 0 ? -1 : bytes.indexOf(COLON, first + 1)
  if (second < 0) throw badRequest('Malformed AuthSession cookie. Please clear your cookies.')
  return {
    name: bytes.toString('utf8', 0, first),
    time: bytes.toString('latin1', first + 1, second),
    mac: bytes.subarray(second + 1),
  }
}

function timeOf({ time }: SessionToken): number | undefined {
  return /^[0-9A-Fa-f]{1,12}$/.test(time) ? Number.parseInt(time, 16) : undefined
}

/** What tokens were signed with lately, by what they say: a session sends the same one with every request. */
const recentMacs = new RecentMap<{ readonly key: string; readonly mac: Buffer }>()
const MOST_MACS = 1_000

function macOf(signed: string, { secret, salt }: SessionKey): Buffer {
  const key = secret + salt
  const recent = recentMacs.get(signed)
  if (recent?.key === key) return recent.mac
  const mac = createHmac('sha1', key).update(signed).digest()
  recentMacs.set(signed, { key, mac }, MOST_MACS)
  return mac
}

/** `Wdy, DD-Mon-YYYY HH:MM:SS GMT` */
function cookieDate(seconds: number): string {
  const [day = '', date = '', month = '', year = '', time = ''] = new Date(seconds * 1000).toUTCString().split(' ')
  return `${day} ${date}-${month}-${year} ${time} GMT`
}
