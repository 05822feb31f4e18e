/** What JSON can say. A member that is absent is not a value: there is no `undefined` in it. */
export type JsonValue = null | boolean | number | string | readonly JsonValue[] | { readonly [name: string]: JsonValue }
