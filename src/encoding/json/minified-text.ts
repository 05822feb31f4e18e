/**
 * Navigates JSON text that was validated and minified before: it is not checked again, so a string of megabytes is
 * skipped as fast as memory is searched.
 */

/** Where the value ends that begins at this place. */
export function endOfValue(text: Buffer, start: number): number {
  const first = text[start]
  if (first === QUOTE) return endOfString(text, start)
  if (first === OPEN_BRACE || first === OPEN_BRACKET) return endOfNested(text, start)
  let at = start
  while (at < text.length && !isEndOfWord(text[at]!)) at++
  return at
}

function endOfNested(text: Buffer, start: number): number {
  let depth = 0
  for (let at = start; at < text.length; ) {
    const byte = text[at]!
    if (byte === QUOTE) {
      at = endOfString(text, at)
      continue
    }
    at++
    if (byte === OPEN_BRACE || byte === OPEN_BRACKET) depth++
    else if ((byte === CLOSE_BRACE || byte === CLOSE_BRACKET) && --depth === 0) return at
  }
  return text.length
}

function endOfString(text: Buffer, start: number): number {
  let at = text.indexOf(QUOTE, start + 1)
  while (at >= 0 && isEscaped(text, start, at)) at = text.indexOf(QUOTE, at + 1)
  return at < 0 ? text.length : at + 1
}

/** A quote behind an odd number of backslashes belongs to the string. */
function isEscaped(text: Buffer, start: number, quoteAt: number): boolean {
  let before = quoteAt - 1
  while (before > start && text[before] === BACKSLASH) before--
  return (quoteAt - before) % 2 === 0
}

function isEndOfWord(byte: number): boolean {
  return byte === COMMA || byte === CLOSE_BRACE || byte === CLOSE_BRACKET
}

const QUOTE = 0x22
const BACKSLASH = 0x5c
const COMMA = 0x2c
const OPEN_BRACE = 0x7b
const CLOSE_BRACE = 0x7d
const OPEN_BRACKET = 0x5b
const CLOSE_BRACKET = 0x5d
