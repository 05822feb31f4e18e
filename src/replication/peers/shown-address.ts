/** An address of a document as people may see it, whether or not anything can be replicated with it. */
import { addressWithoutPassword } from '../../auth/replicator/address-credentials.ts'
import { isObject } from '../../encoding/json/json-value.ts'

/** The name or the URL, its password hidden; null where there is none. */
export function shownAddress(address: unknown): string | null {
  const text = isObject(address) ? address.url : address
  if (typeof text !== 'string') return null
  return addressWithoutPassword(text)
}
