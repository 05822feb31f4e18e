/**
 * A command line of the configuration as words, the way a shell would split it. Nothing else of a shell is here: no
 * variables, no patterns, no pipes.
 */

/** Blanks separate words; quotes keep them together; a backslash keeps the next character as it is. */
export function commandWords(line: string): string[] {
  return [...line.matchAll(WORD)].map(([word]) => word.replace(PART, unquoted))
}

/** A quote that is never closed goes on to the end. */
const PART = /'([^']*)(?:'|$)|"((?:[^"\\]|\\.)*)(?:"|\\?$)|\\(.)/gs
const WORD = /(?:'[^']*(?:'|$)|"(?:[^"\\]|\\.)*(?:"|\\?$)|\\.|[^\s'"])+/gs

function unquoted(_: string, single?: string, double?: string, escaped?: string): string {
  // Between double quotes a backslash is one, but before a quote or another backslash: paths come through.
  return single ?? double?.replace(/\\(["\\])/g, '$1') ?? escaped ?? ''
}
