/** `_replicate`: starts a replication and waits for it, has one run on, or ends one. */
import { badRequest } from '../../document/request-error.ts'
import { isObject } from '../../encoding/json/json-value.ts'
import { cancelledId, isOn, parseReplicationRequest } from '../../replication/replication-request.ts'
import { defaultOptions } from '../../replication/replication-settings.ts'
import { readJson } from '../bodies/request-body.ts'
import { type Answer, json } from '../server/answer.ts'
import { authenticationOf } from '../server/authentication.ts'
import type { Call } from '../server/call.ts'
import type { HttpContext } from '../server/context.ts'

export async function replicate(call: Call, context: HttpContext): Promise<Answer> {
  const body = await readJson(call, context)
  if (!isObject(body)) throw badRequest('Request body must be a JSON object')
  const { user } = authenticationOf(call)
  const { replications, configuration } = context
  const isCancel = isOn(body, 'cancel')
  const named = isCancel ? cancelledId(body) : undefined
  if (named !== undefined) return cancelAnswer(context, named, call)
  const request = parseReplicationRequest(body, user, defaultOptions(configuration))
  const id = await replications.identify(request)
  if (isCancel) return cancelAnswer(context, id.full, call)
  const { accepted, result } = await replications.run(id, request)
  if (request.continuous) {
    // What it ends with later is in the log.
    await accepted
    return json({ ok: true, _local_id: id.full }, { status: 202 })
  }
  const { reply } = await result
  return json({ ok: true, ...reply })
}

async function cancelAnswer({ replications }: HttpContext, fullId: string, call: Call): Promise<Answer> {
  await replications.cancel(fullId, authenticationOf(call).user)
  return json({ ok: true, _local_id: fullId })
}
