/** What names and values of headers may be made of: anything else could end a line early, or begin another one. */

const TOKEN = /^[\w!#$%&'*+.^`|~-]+$/
const UNFIT = /[^\t\x20-\x7e\x80-\xff]/

export function isHeaderName(text: string): boolean {
  return TOKEN.test(text)
}

/** A character stands for a byte. */
export function isHeaderValue(text: string): boolean {
  return !UNFIT.test(text)
}
