/** What JSON can say. A member that is absent is not a value: there is no `undefined` in it. */
export type JsonValue = null | boolean | number | string | readonly JsonValue[] | { readonly [name: string]: JsonValue }

/** Whether a value out of JSON is an object: not an array, and not null. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Whether something that was read from JSON is there: what it then holds is nothing but such values. */
export function isJsonValue(value: unknown): value is JsonValue {
  return value !== undefined
}

/**
 * Digests of long JSON lists, recorded when they are parsed, so that a list can be identified without serializing it
 * again.
 */
const digests = new WeakMap<object, string>()

export function noteDigest(value: object, digest: string): void {
  digests.set(value, digest)
}

/** Undefined if none was recorded: short lists have none. */
export function digestOf(value: object): string | undefined {
  return digests.get(value)
}
