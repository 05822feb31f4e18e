/** Name and password in the head of a request: HTTP's Basic scheme. */

export interface Credentials {
  readonly name: string
  readonly password: string
}

/** Names of schemes are the same in any letter case. */
const SCHEME = 'basic '

/** Undefined when there are none; `_:_` is how a browser is made to forget the ones it has. */
export function basicCredentials(authorization: string | undefined): Credentials | undefined {
  if (authorization?.slice(0, SCHEME.length).toLowerCase() !== SCHEME) return undefined
  const text = Buffer.from(authorization.slice(SCHEME.length).trim(), 'base64').toString()
  const colon = text.indexOf(':')
  if (colon < 0 || text === '_:_') return undefined
  // A password may have colons, a name may not.
  return { name: text.slice(0, colon), password: text.slice(colon + 1) }
}
