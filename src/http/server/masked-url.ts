/** The target of a request as the log shows it: without what would let somebody in. Linear in its length. */

export function maskedUrl(url: string): string {
  if (!url.includes('?') && !url.includes('@') && !url.includes('%40')) return url
  return maskCredentials(maskParameters(url))
}

const SECRET_WORDS = ['token', 'secret', 'password', 'signature', 'callback_confirmed']

/** Values of parameters whose name has a secret word in it. */
function maskParameters(url: string): string {
  const start = url.indexOf('?')
  if (start < 0) return url
  const parameters = url.slice(start + 1).split('&')
  return `${url.slice(0, start + 1)}${parameters.map(maskParameter).join('&')}`
}

/** A target inside of a value may have parameters too: from its first secret on nothing is shown. */
function maskParameter(parameter: string): string {
  for (let start = 0; start >= 0; ) {
    const end = parameter.indexOf('=', start)
    if (end < 0) return parameter
    if (isSecretName(parameter.slice(start, end))) return `${parameter.slice(0, end + 1)}…`
    start = parameter.indexOf('?', end)
  }
  return parameter
}

function isSecretName(name: string): boolean {
  const lower = name.toLowerCase()
  return SECRET_WORDS.some((word) => lower.includes(word))
}

/** What stands between a scheme and an at sign, escaped or not: `http://name:password@host`. */
const BEGIN = /:\/\/|%3A%2F%2F/gi
/** What ends the search for an at sign: the sign, or a path. */
const END = /[/@]|%40/g

function maskCredentials(url: string): string {
  let masked = ''
  let shownTo = 0
  BEGIN.lastIndex = 0
  for (let begin = BEGIN.exec(url); begin; begin = BEGIN.exec(url)) {
    END.lastIndex = BEGIN.lastIndex
    const end = END.exec(url)
    if (!end) break
    if (end[0] !== '/') {
      masked += `${url.slice(shownTo, BEGIN.lastIndex)}…`
      shownTo = end.index
    }
    // Whatever begins before this end has the same one; its slash may itself be one of `://`.
    BEGIN.lastIndex = Math.max(BEGIN.lastIndex, end.index - 1)
  }
  return masked + url.slice(shownTo)
}
