/** What the log says of requests: a line each, and more at the level `debug`. Secrets never get there. */
import type { Answer } from './answer.ts'
import type { Call } from './call.ts'
import type { HttpContext } from './context.ts'
import { maskedUrl } from './masked-url.ts'

export function logRequest(call: Call, { log, serverLog }: HttpContext, answer: Answer): void {
  if (serverLog.writes('debug')) log.debug('The headers of a request.', masked(call))
  log.info(`${call.peer} - - ${call.request.method} ${maskedUrl(call.url)} ${answer.status}`)
  if (answer.kind !== 'whole' || answer.status < 400) return
  const details = { method: call.method, url: maskedUrl(call.url), body: answer.body.toString().trim() }
  if (answer.status >= 500) log.error('A request failed.', details)
  else if (serverLog.writes('debug')) log.debug('A request was refused.', details)
}

const SECRET_HEADER = /authori[sz]ation|cookie|token|secret|password/i
function masked({ request }: Call): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(request.headers).map(([name, value]) => [name, SECRET_HEADER.test(name) ? '…' : value]),
  )
}
