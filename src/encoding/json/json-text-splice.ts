/**
 * JSON text put together from JSON text: what is stored is sent as it is, between newly written members. Input and
 * output have no white space.
 */

/** A string as JSON: only quotes, backslashes and control characters are escaped. */
export function quoteText(text: string): string {
  if (isPlain(text)) return `"${text}"`
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

/**
 * One object of the members of all parts, in order. A part is the text of members with commas between, or empty. The
 * object may be a line: a newline then follows it.
 */
export function spliceObject(parts: readonly (string | Buffer)[], { isLine = false } = {}): Buffer {
  let size = 2
  for (const part of parts)
    if (part.length > 0) size += 1 + (typeof part === 'string' ? Buffer.byteLength(part) : part.length)
  // One separator less than there are parts.
  const object = Buffer.allocUnsafe((size === 2 ? 2 : size - 1) + (isLine ? 1 : 0))
  object[0] = OPEN_BRACE
  let at = 1
  for (const part of parts) {
    if (part.length === 0) continue
    if (at > 1) object[at++] = COMMA
    at += typeof part === 'string' ? object.write(part, at, 'utf8') : part.copy(object, at)
  }
  object[at] = CLOSE_BRACE
  if (isLine) object[at + 1] = NEWLINE
  return object
}

/** Pieces of text, one after the other. */
export function joinText(pieces: readonly (string | Buffer)[]): Buffer {
  let size = 0
  for (const piece of pieces) size += typeof piece === 'string' ? Buffer.byteLength(piece) : piece.length
  const whole = Buffer.allocUnsafe(size)
  let at = 0
  for (const piece of pieces) at += typeof piece === 'string' ? whole.write(piece, at, 'utf8') : piece.copy(whole, at)
  return whole
}

/** Longer texts are quoted as fast by `JSON.stringify`. */
const SHORT_LENGTH = 64

/** Whether nothing of a text is escaped: true of nearly all ids and revisions. */
function isPlain(text: string): boolean {
  if (text.length > SHORT_LENGTH) return false
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (code < 0x20 || code > 0x7e || code === QUOTE || code === BACKSLASH) return false
  }
  return true
}

const QUOTE = 0x22
const BACKSLASH = 0x5c
const COMMA = 0x2c
const OPEN_BRACE = 0x7b
const CLOSE_BRACE = 0x7d
const NEWLINE = 0x0a
