/**
 * Requests below a database that a program of `[external]` answers: it receives the request object and returns the
 * response.
 */

import type { RequestError } from '../../document/request-error.ts'
import { isObject } from '../../encoding/json/json-value.ts'
import type { Answer } from '../server/answer.ts'
import { authenticationOf } from '../server/authentication.ts'
import { type Call, clientSignal } from '../server/call.ts'
import type { PrimaryContext } from '../server/context.ts'
import { HttpError } from '../server/errors.ts'
import { functionBody, functionRequest } from './function-request.ts'
import { responseAnswer } from './function-response.ts'

/** `program` is the name that the handler has in the configuration; without one, the path names it. */
export async function externalRequest(call: Call, context: PrimaryContext, program: string): Promise<Answer> {
  const name = program === '' ? call.segment(2) : program
  if (name === '') throw serverError('No server name specified.')
  const handler = context.programs.handler(name)
  if (!handler) throw serverError(`No server configured for ${name}.`)
  const database = await authenticationOf(call).openDatabase(call.segment(0))
  const body = await functionBody(call, context)
  const request = await functionRequest(call, context, database, { id: null, body })
  const line = await handler.ask(request, { owner: database.name, signal: clientSignal(call) })
  const response = parsed(line)
  if (isObject(response)) return responseAnswer(response)
  handler.discard()
  throw new HttpError(500, 'external_response_error', `Invalid data from external server: ${line.slice(0, 100)}`)
}

function serverError(reason: string): RequestError {
  return new HttpError(404, 'external_server_error', reason)
}

function parsed(line: string): unknown {
  try {
    return JSON.parse(line)
  } catch {
    return undefined
  }
}
