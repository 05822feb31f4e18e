/**
 * The credentials in a URL. A password may contain unescaped at signs, colons and slashes: everything before the last
 * at sign belongs to the credentials.
 */

interface AddressParts {
  /** `https://` */
  readonly scheme: string
  /** Undefined where there are no credentials. */
  readonly credentials: string | undefined
  readonly place: string
}

function partsOf(address: string): AddressParts {
  const [scheme = ''] = /^\s*[a-z][a-z0-9+.-]*:[/\\]*/i.exec(address) ?? []
  const rest = address.slice(scheme.length)
  const end = rest.lastIndexOf('@')
  if (end < 0) return { scheme, credentials: undefined, place: rest }
  return { scheme, credentials: rest.slice(0, end), place: rest.slice(end + 1) }
}

/** The address without name and password. */
export function addressWithoutCredentials(address: string): string {
  const { scheme, place } = partsOf(address)
  return scheme + place
}

/** The address with its password hidden. */
export function addressWithoutPassword(address: string): string {
  const { scheme, credentials, place } = partsOf(address)
  if (credentials === undefined) return address
  const [name = '', ...password] = credentials.split(':')
  return `${scheme}${name}${password.length === 0 ? '' : ':*****'}@${place}`
}
