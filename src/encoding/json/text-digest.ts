/**
 * What long lists out of JSON stand for, in few bytes: the digest of their text, noted when they are parsed. Whoever needs
 * a name for such a list need not write it out again, which would take as long as all the rest.
 */
const digests = new WeakMap<object, string>()

export function noteDigest(value: object, digest: string): void {
  digests.set(value, digest)
}

/** Undefined where none was noted: for short lists nobody does. */
export function digestOf(value: object): string | undefined {
  return digests.get(value)
}
