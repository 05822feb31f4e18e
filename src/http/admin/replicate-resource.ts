/** `_replicate`: starts a replication and waits for it, starts a continuous one, or cancels one. */
import { badRequest, RequestError } from '../../document/request-error.ts'
import { isObject } from '../../encoding/json/json-value.ts'
import { noSuchReplication } from '../../replication/replication-error.ts'
import { cancelledId, isOn, parseReplicationRequest, queryParameters } from '../../replication/replication-request.ts'
import { defaultOptions } from '../../replication/replication-settings.ts'
import { readJson } from '../bodies/request-body.ts'
import { type Answer, json } from '../server/answer.ts'
import { authenticationOf } from '../server/authentication.ts'
import type { Call } from '../server/call.ts'
import type { PrimaryContext } from '../server/context.ts'
import { notAnswered } from './server-work.ts'

export async function replicate(call: Call, context: PrimaryContext): Promise<Answer> {
  const body = await readJson(call, context)
  if (!isObject(body)) throw badRequest('Request body must be a JSON object')
  const { user } = authenticationOf(call)
  const { replications, configuration } = context
  const isCancel = specified(call, () => isOn(body, 'cancel'))
  const named = isCancel ? cancelledId(body) : undefined
  if (named !== undefined) return cancelAnswer(context, named, call)
  queryParameters(body.query_params)
  const request = specified(call, () => parseReplicationRequest(body, user, defaultOptions(configuration)))
  const id = await replications.identify(request)
  if (isCancel) return cancelAnswer(context, id.full, call)
  const { accepted, result } = await replications.run(id, request)
  if (request.continuous) {
    // Its outcome is in the log.
    await accepted
    return json({ ok: true, _local_id: id.full }, { status: 202 })
  }
  const { reply } = await result
  return json({ ok: true, ...reply })
}

/** A specification that is not valid is a 500 in the interface, and a 400 in release 3. */
function specified<T>({ dialect }: Call, parse: () => T): T {
  try {
    return parse()
  } catch (error) {
    if (dialect === '3' || !(error instanceof RequestError) || error.kind !== 'invalid') throw error
    throw new RequestError('failed', error.error, error.reason)
  }
}

/**
 * A load balancer may have sent the request to another server than the one that runs it. Several run it if several were asked
 * to start it.
 */
async function cancelAnswer({ replications, work }: PrimaryContext, fullId: string, call: Call): Promise<Answer> {
  const { user } = authenticationOf(call)
  const isHere = replications.scheduler.job(fullId) !== undefined
  if (isHere) await replications.cancel(fullId, user)
  const elsewhere = await work.cancelElsewhere(fullId)
  if (!isHere && elsewhere === 'unknown') throw notAnswered()
  if (!isHere && elsewhere === 'none') throw noSuchReplication(fullId)
  return json({ ok: true, _local_id: fullId })
}
