/** `_stats`: what the server counted. */
import { canonicalSection } from '../../config/setting-map.ts'
import { badRequest } from '../../document/request-error.ts'
import { type Answer, json } from '../server/answer.ts'
import type { Call } from '../server/call.ts'
import type { HttpContext } from '../server/context.ts'

export function statistics(call: Call, { statistics }: HttpContext): Answer {
  const [, section, name, ...rest] = call.segments
  const windowSeconds = call.queryCount('range') ?? 0
  if (call.querySwitch('flush')) statistics.flush()
  if (section === undefined) return json(statistics.all(windowSeconds))
  if (name === undefined || rest.length > 0) throw badRequest('Stat names must have exactly two parts.')
  // Under the name that the client knows the section by.
  return json({ [section]: { [name]: statistics.one(canonicalSection(section), name, windowSeconds) } })
}
