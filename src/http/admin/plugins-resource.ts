/** `_plugins`: where servers of the family install code that somebody sends. This one has nothing to install it into. */
import { RequestError } from '../../document/request-error.ts'
import { requireJsonType } from '../bodies/request-body.ts'
import type { Answer } from '../server/answer.ts'
import type { Call } from '../server/call.ts'

export function installPlugin(call: Call): Answer {
  requireJsonType(call)
  throw new RequestError(501, 'not_implemented', 'Plugins are not supported.')
}
