/**
 * JSON text put together from JSON text: what is stored is sent as it is, between members that are written anew. Takes
 * and gives text without white space.
 */

/** A string as JSON: only quotes, backslashes and control characters are escaped. */
export function quoteText(text: string): string {
  return JSON.stringify(text.isWellFormed() ? text : text.toWellFormed())
}

/** The same, as bytes. */
export function quoteBytes(text: string): Buffer {
  return Buffer.from(quoteText(text), 'utf8')
}

/** The members of an object, for `spliceObject`: its text without the braces. */
export function membersOf(object: Buffer): Buffer {
  return object.subarray(1, object.length - 1)
}

/** One object of the members of all parts, in order. A part is the text of members with commas between, or empty. */
export function spliceObject(parts: readonly (string | Buffer)[]): Buffer {
  const filled = parts.filter((part) => part.length > 0)
  const sizes = filled.map((part) => Buffer.byteLength(part))
  const object = Buffer.allocUnsafe(sizes.reduce((sum, size) => sum + size + 1, filled.length === 0 ? 2 : 1))
  let at = 0
  for (const [index, part] of filled.entries()) {
    object[at++] = index === 0 ? OPEN_BRACE : COMMA
    if (typeof part === 'string') object.write(part, at, 'utf8')
    else part.copy(object, at)
    at += sizes[index]!
  }
  if (filled.length === 0) object[at++] = OPEN_BRACE
  object[at] = CLOSE_BRACE
  return object
}

const COMMA = 0x2c
const OPEN_BRACE = 0x7b
const CLOSE_BRACE = 0x7d
