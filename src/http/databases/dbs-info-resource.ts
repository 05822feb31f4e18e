/** `_dbs_info`: the information of many databases in one request, streamed. */
import { informationMembers } from '../../database/information-members.ts'
import { badRequest, RequestError } from '../../document/request-error.ts'
import { isObject } from '../../encoding/json/json-value.ts'
import { EngineUnavailableError, FileDamagedError } from '../../storage/storage-error.ts'
import { listedDatabases } from '../admin/server-resource.ts'
import { readJson, requireJsonType } from '../bodies/request-body.ts'
import { type Answer, streamed } from '../server/answer.ts'
import { authenticationOf } from '../server/authentication.ts'
import type { Call } from '../server/call.ts'
import type { HttpContext } from '../server/context.ts'

const LARGEST_COUNT = 100

/** Of all databases, with the parameters of `_all_dbs`. */
export async function allDatabasesInformation(call: Call, context: HttpContext): Promise<Answer> {
  return streamed(entriesOf(call, await listedDatabases(call, context)))
}

/** Of those that the body names. */
export async function namedDatabasesInformation(call: Call, context: HttpContext): Promise<Answer> {
  requireJsonType(call)
  const body = await readJson(call, context)
  if (!isObject(body)) throw badRequest('Request body must be a JSON object')
  const { keys } = body
  if (keys === undefined) throw badRequest('`keys` member must exist.')
  if (!Array.isArray(keys)) throw badRequest('`keys` member must be an array.')
  if (keys.length > LARGEST_COUNT) throw badRequest('too_many_keys')
  return streamed(entriesOf(call, keys))
}

async function* entriesOf(call: Call, names: readonly unknown[]): AsyncGenerator<string> {
  let separator = '['
  for (const name of names) {
    yield separator + JSON.stringify({ key: name, ...(await entryOf(call, name)) })
    separator = ','
  }
  yield names.length === 0 ? '[]\n' : ']\n'
}

/** A database that is missing, damaged or out of reach does not fail the others. */
async function entryOf(call: Call, name: unknown): Promise<object> {
  if (typeof name !== 'string') return NOT_FOUND
  try {
    return { info: await informationMembers(await authenticationOf(call).openDatabase(name)) }
  } catch (error) {
    if (error instanceof RequestError) return NOT_FOUND
    if (error instanceof FileDamagedError) return { error: 'file_corrupted', reason: error.message }
    if (error instanceof EngineUnavailableError) return { error: 'service_unavailable', reason: error.message }
    throw error
  }
}

const NOT_FOUND = { error: 'not_found' }
