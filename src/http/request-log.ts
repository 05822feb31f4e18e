/** What the log says of requests: a line each, and more at the level `debug`. Secrets never get there. */
import type { Answer } from './answer.ts'
import type { Call } from './call.ts'
import type { HttpContext } from './context.ts'

export function logRequest(call: Call, { log, serverLog }: HttpContext, answer: Answer): void {
  if (serverLog.writes('debug')) log.debug('The headers of a request.', masked(call))
  log.info(`${call.peer} - - ${call.request.method} ${maskedUrl(call.url)} ${answer.status}`)
  if (answer.kind !== 'whole' || answer.status < 400) return
  const details = { method: call.method, url: maskedUrl(call.url), body: answer.body.toString().trim() }
  if (answer.status >= 500) log.error('A request failed.', details)
  else if (serverLog.writes('debug')) log.debug('A request was refused.', details)
}

const SECRET_HEADER = /authori[sz]ation|cookie|token|secret|password/i
const SECRET_PARAMETER = /([?&][^=&]*(?:token|secret|password|signature|callback_confirmed)[^=&]*=)[^&]*/gi
const CREDENTIALS = /(:\/\/|%3A%2F%2F)[^/@]*?(@|%40)/gi

function masked({ request }: Call): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(request.headers).map(([name, value]) => [name, SECRET_HEADER.test(name) ? '…' : value]),
  )
}

/** The target without values that would let somebody in. */
export function maskedUrl(url: string): string {
  if (!url.includes('?') && !url.includes('@') && !url.includes('%40')) return url
  return url.replace(SECRET_PARAMETER, '$1…').replace(CREDENTIALS, '$1…$2')
}
